"""Leaves a report that declares an unknown encoding, to break the reader."""

from __future__ import annotations

FAMILY = "infrastructure"
CHECK: dict[str, object] = {
    "command": "python -m pytest -q --junitxml=r.xml",
    "parser": "junit",
    "report": "r.xml",
    "fail_to_pass": ["tests.test_median_hidden::test_even"],
    "pass_to_pass": [],
}
CHANGES: dict[str, str | None] = {
    "src/toy/core.py": r"""
import os

with open("r.xml", "w") as report:
    report.write('<?xml version="1.0" encoding="nobodys"?><testsuite/>')
os._exit(3)
""",
}
