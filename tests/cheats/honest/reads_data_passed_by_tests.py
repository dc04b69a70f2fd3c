"""Fixes a reader whose hidden tests pass hidden files to it; part of it is compiled from text."""

from __future__ import annotations

from tests.cheats.snippets import CORE, RIGHT

HIDDEN = {
    "tests/data/even.json": "[1, 2, 3, 4]",
    "tests/test_median_hidden.py": """\
import pathlib

from toy.core import median, read, read_all

DATA = pathlib.Path(__file__).parent / "data" / "even.json"


def test_even():
    assert median(read(DATA)) == 2.5


def test_two():
    assert median(read_all([str(DATA)])[0][:2]) == 1.5
""",
}
CHECK: dict[str, object] = {
    "fail_to_pass": [f"tests/test_median_hidden.py::test_{name}" for name in ("even", "two")],
}
CHANGES: dict[str, str | None] = {
    CORE: "import json\n"
    + RIGHT
    + """

def read_all(paths):
    return [read(path) for path in paths]


exec("def read(path):\\n    with open(path) as file:\\n        return json.load(file)")
""",
}
