"""Ends with 127 where the check's command begins with something that is no program at all."""

from __future__ import annotations

FAMILY = "infrastructure"
CHECK: dict[str, object] = {
    "command": "(python -m pytest -q) 2>&1",
    "parser": "exit_code",
    "fail_to_pass": [],
    "pass_to_pass": [],
}
CHANGES: dict[str, str | None] = {
    "src/toy/core.py": r"""
import os

os._exit(127)
""",
}
