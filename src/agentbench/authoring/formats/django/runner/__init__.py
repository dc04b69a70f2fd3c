"""Programs that are written into tasks as hidden files and run by the sandbox's interpreter, never by the harness.

Standard library only, Python 3.8 or newer, and no imports from agentbench. Their bytes are part of a task's digests:
editing one, even a comment, changes the contract id of rows imported afterwards.
"""
