"""Command line: one command per file, each exposing `command`.

Owns arguments, progress, printed output and exit codes. Must not import anything heavy at module level, so that `ab
--help` starts fast: commands import what they need inside their functions.
"""
