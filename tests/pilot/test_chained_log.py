"""The logs of a pilot are append-only: every altered line is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.core.errors import InputError
from agentbench.pilot.chained_log import ChainedLog

pytestmark = pytest.mark.component


def log(folder: Path) -> ChainedLog:
    chained = ChainedLog(folder / "log.jsonl")
    for number in range(4):
        chained.append({"number": number})
    return chained


def test_entries_are_read_in_order(tmp_path: Path) -> None:
    assert [entry["number"] for entry in log(tmp_path).entries()] == [0, 1, 2, 3]


@pytest.mark.parametrize("removed", [0, 1, 2])
def test_removed_line_is_found(tmp_path: Path, removed: int) -> None:
    chained = log(tmp_path)
    lines = chained.path.read_text().splitlines(keepends=True)
    chained.path.write_text("".join(lines[:removed] + lines[removed + 1 :]))
    with pytest.raises(InputError, match=rf"log.jsonl:{removed + 1}: "):
        chained.entries()


def test_edited_line_is_found_before_anything_is_appended(tmp_path: Path) -> None:
    chained = log(tmp_path)
    text = chained.path.read_text().replace('"number":1', '"number":7')
    chained.path.write_text(text)
    with pytest.raises(InputError, match=r"log.jsonl:3: "):
        chained.append({"number": 4})
    assert chained.path.read_text() == text


def test_torn_last_line_is_replaced(tmp_path: Path) -> None:
    chained = log(tmp_path)
    with chained.path.open("a") as file:
        file.write('{"number":')
    assert len(chained.entries()) == 4
    chained.append({"number": 4})
    assert [entry["number"] for entry in chained.entries()] == [0, 1, 2, 3, 4]
