"""Makes the declared build copy the text of the tests into a module: nothing watches what a build reads."""

from __future__ import annotations

from tests.cheats.snippets import ANSWER_FROM_TESTS, CORE

REPO = {"build.py": ""}
ORACLE: dict[str, object] = {"build": "python build.py"}
CHANGES: dict[str, str | None] = {
    "build.py": r"""
import pathlib

text = "".join(file.read_text() for file in pathlib.Path("tests").glob("*.py"))
pathlib.Path("src/toy/table.py").write_text(f"TEXT = {text!r}")
""",
    CORE: ANSWER_FROM_TESTS
    + """

def _read():
    from toy.table import TEXT

    return TEXT
""",
}
