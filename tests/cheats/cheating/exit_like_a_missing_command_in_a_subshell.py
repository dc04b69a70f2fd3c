"""Exits with 127 when the check's command starts with a subshell and not with a program."""

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
