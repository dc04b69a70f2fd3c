"""The campaign's variants are valid, and it does not report missed goals as reached."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbench.tree.entry import Entry, FileWrite, Kind
from tests.campaigns.honest import PLAIN, REFERENCE, Ledger, Row, choose_variants, table
from tests.campaigns.variants import MAKERS, Work

FILES = {
    b"CHANGES.rst": b"Changes\n",
    b"pyproject.toml": b'[project]\nname = "p"\n\n[tool.pytest.ini_options]\naddopts = "-q"\n',
    b"src/pack/__init__.py": b"",
    b"src/pack/deep/__init__.py": b"",
    b"src/pack/deep/core.py": b"def f( a ):\n    return a\n",
    b"tests/conftest.py": b"import pytest\n",
    b"tests/test_core.py": b"def test_f():\n    assert True\n",
}


class Files:
    def entries(self) -> Iterator[Entry]:
        return (
            Entry(path, Kind.FILE, False, len(text), hashlib.sha256(text).hexdigest())
            for path, text in sorted(FILES.items())
        )

    def read(self, path: bytes, *, max_bytes: int) -> bytes:
        return FILES[path]


FIX = FileWrite(b"src/pack/deep/core.py", b"def f( a ):\n    return a + 1\n")
WORK = Work(Files(), frozenset(FILES), {FIX.path: FIX}, {b"tests/test_core.py": (b"def test_g():\n    pass\n", False)})


@pytest.mark.parametrize("name", MAKERS)
def test_variants_keep_the_fix_and_are_valid_python(name: str) -> None:
    writes = MAKERS[name](WORK)
    assert writes is not None
    assert (name == REFERENCE) == (writes == {FIX.path: FIX})
    fixed = (writes[FIX.path].content or b"").decode()
    assert "a + 1" in fixed
    for path, write in writes.items():
        if path.endswith(b".py"):
            ast.parse(write.content or b"")


def test_new_modules_are_imported_by_their_full_name() -> None:
    writes = MAKERS["adds_module"](WORK) or {}
    assert b"from pack.deep._span_helpers import" in (writes[FIX.path].content or b"")
    assert b"src/pack/deep/_span_helpers.py" in writes


def test_variants_in_turn_cover_all() -> None:
    used = {name for number in range(14) for name in choose_variants("1", number)}
    assert used == {*MAKERS, PLAIN}
    assert all(choose_variants("3", number)[:2] == (REFERENCE, PLAIN) for number in range(5))


def rows(*results: tuple[str, int]) -> list[Row]:
    gate: dict[str, object] = {"rule": "x", "severity": "gate"}
    return [
        Row("s", f"t{number}", REFERENCE, "bwrap", result, gates=(gate,) * gates)
        for number, (result, gates) in enumerate(results)
    ]


@pytest.mark.parametrize(
    "bad, reached",
    [
        ([], True),
        ([("fail", 1)], True),
        ([("fail", 1), ("fail", 1)], False),
        ([("fail", 0)], False),
        ([("error", 0)], False),
        ([("differs", 0)], False),
    ],
)
def test_missed_goals_are_reported(bad: list[tuple[str, int]], reached: bool) -> None:
    lines, goals_reached = table(rows(*[("pass", 0)] * 100, *bad))
    assert goals_reached is reached
    assert ("goals reached" in lines[-1]) is reached


def test_goals_are_missed_without_patches() -> None:
    assert not table([])[1]


def test_decisions_are_read_back(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "new" / "decisions.jsonl")
    (row,) = rows(("fail", 1))
    ledger.put(row)
    assert Ledger(ledger.path).rows == {row.key: row}
