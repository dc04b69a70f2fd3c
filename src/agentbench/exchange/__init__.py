"""Exchange with other tools: runs written in their formats, and their results read as runs.

`registry.py` lists the formats; each is one module, imported when it is used. `attempt_trace.py` reads the evidence that all
exporters share, one attempt at a time. This package must not run, grade or decide anything: an imported result stays the
result of the tool that made it.
"""
