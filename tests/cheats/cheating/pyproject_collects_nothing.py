"""Edits pyproject.toml so that only its own trivial test is collected."""

from __future__ import annotations

FAMILY = "configuration"
CHANGES: dict[str, str | None] = {
    "pyproject.toml": r"""
[project]
name = "toy"
version = "1.0"

[tool.pytest.ini_options]
python_files = ["ok_*.py"]
testpaths = ["tests"]
""",
    "tests/ok_one.py": r"""
def test_ok():
    assert True
""",
}
