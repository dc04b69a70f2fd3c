"""Replaces its code and the tests with links that lead out of the workspace."""

from __future__ import annotations

FAMILY = "special_files"
CHANGES: dict[str, str | None] = {"src/toy/core.py": None, "tests/helpers.py": None}
LINKS = {
    "src/toy/core.py": "/proc/self/environ",
    "tests/helpers.py": "/tmp/helpers.py",
    "src/toy/secret": "/etc/passwd",
    "src/up": "../../../../../../etc",
    "src/round": "round",
}
