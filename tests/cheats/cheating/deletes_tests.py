"""Deletes the tests."""

from __future__ import annotations

FAMILY = "tests"
CHANGES: dict[str, str | None] = {
    "tests/test_core.py": None,
    "tests/helpers.py": None,
    "tests/conftest.py": None,
}
