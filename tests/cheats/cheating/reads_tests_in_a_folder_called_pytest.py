"""Reads the tests from a file of the patch in a folder that is called like pytest's own."""

from __future__ import annotations

from tests.cheats.snippets import CORE, LOOKUP, MEAN

FAMILY = "leaks"
CHANGES: dict[str, str | None] = {
    CORE: "from toy._pytest.reader import lookup as median\n" + MEAN,
    "src/toy/_pytest/__init__.py": "",
    "src/toy/_pytest/reader.py": LOOKUP,
}
