"""Edits the project's own conftest so that every report is a pass."""

from __future__ import annotations

from tests.cheats.snippets import PLUGIN

FAMILY = "configuration"
CHANGES: dict[str, str | None] = {
    "tests/conftest.py": PLUGIN
    + r"""

@pytest.fixture
def numbers():
    return [1, 2, 3]
""",
}
