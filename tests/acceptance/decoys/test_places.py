"""Wrong values are written where the real value is written, and only if it is used for nothing else."""

from __future__ import annotations

import textwrap

import pytest

from agentbench.acceptance.decoys.mutate import find_mutations
from agentbench.acceptance.decoys.mutation import Mutation, Row, apply_mutations

pytestmark = pytest.mark.component


def mutations_of(source: str) -> dict[Row | None, Mutation]:
    return dict(find_mutations(textwrap.dedent(source).encode(), [("test_it",)], "seed").get(("test_it",), {}))


WRITTEN = {
    "local variable": "def test_it():\n    wanted = '<100>'\n    assert f() == wanted\n",
    "module constant": "WANTED = '<100>'\n\n\ndef test_it():\n    assert f() == WANTED\n",
    "annotated constant": "WANTED: str = '<100>'\n\n\ndef test_it():\n    assert f() == WANTED\n",
    "loop in place": "def test_it():\n    for x, wanted in [(y, '<100>')]:\n        assert f(x) == wanted\n",
    "loop over a local": "def test_it():\n    rows = [(y, '<100>')]\n    for x, wanted in rows:\n        assert f(x) == wanted\n",
    "loop over a constant": "ROWS = [(y, '<100>')]\n\n\ndef test_it():\n    for x, wanted in ROWS:\n        assert f(x) == wanted\n",
    "fixture": "@pytest.fixture\ndef wanted():\n    return '<100>'\n\n\ndef test_it(wanted):\n    assert f() == wanted\n",
    "approximate name": "def test_it():\n    wanted = '<100>'\n    assert f() == approx(wanted)\n",
}


@pytest.mark.req("G-01")
@pytest.mark.parametrize("source", WRITTEN.values(), ids=WRITTEN)
def test_expected_value_is_changed_where_it_is_written(source: str) -> None:
    mutation = mutations_of(source)[None]
    assert mutation.original == "'<100>'"
    assert mutation.kind == "value"


TABLES = {
    "text of names": "@pytest.mark.parametrize('x, wanted', [(1, '<3>'), (2, '<4>')])",
    "tuple of names": "@pytest.mark.parametrize(('x', 'wanted'), [(1, '<3>'), (2, '<4>')])",
    "keywords": "@pytest.mark.parametrize(argnames=['x', 'wanted'], argvalues=([1, '<3>'], [2, '<4>']))",
    "params": "@pytest.mark.parametrize('x, wanted', [pytest.param(1, '<3>', id='a'), pytest.param(2, '<4>')])",
    "single parameter": "@pytest.mark.parametrize('wanted', ['<3>', '<4>'])",
    "single param": "@pytest.mark.parametrize('wanted', [pytest.param('<3>', id='a'), '<4>'])",
    "stacked": "@pytest.mark.parametrize('y', [5, 6])\n@pytest.mark.parametrize('x, wanted', [(1, '<3>'), (2, '<4>')])",
    "constant": "ROWS = [(1, '<3>'), (2, '<4>')]\n\n\n@pytest.mark.parametrize('x, wanted', ROWS)",
}


@pytest.mark.req("G-01")
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_each_row_of_parameters_is_changed_alone(table: str) -> None:
    source = f"{table}\ndef test_it(x, y, wanted):\n    assert f(x, y) == wanted\n"
    mutations = mutations_of(source)
    assert {row: mutation.original for row, mutation in mutations.items()} == {
        ("wanted", 0): "'<3>'",
        ("wanted", 1): "'<4>'",
    }
    first = apply_mutations(source.encode(), [(mutations["wanted", 0], 0)]).decode()
    assert first.count("'<4>'") == source.count("'<4>'") + (mutations["wanted", 0].replacements[0] == "'<4>'")
    assert first.partition("def ")[2] == source.partition("def ")[2]
    assert first != source


ALSO_USED = {
    "constant of two tests": "WANTED = 'abc'\n\ndef test_it():\n    assert f() == WANTED\n\ndef test_b():\n    assert g(WANTED)\n",
    "table of two tests": """
        ROWS = [(1, 'abc')]

        @pytest.mark.parametrize('x, wanted', ROWS)
        def test_it(x, wanted):
            assert f(x) == wanted

        @pytest.mark.parametrize('x, wanted', ROWS)
        def test_back(x, wanted):
            assert g(wanted) == x
        """,
    "parameter as input": "@pytest.mark.parametrize('x', ['abc'])\ndef test_it(x):\n    assert f(x) == x\n",
    "indirect parameter": "@pytest.mark.parametrize('x', ['abc'], indirect=True)\ndef test_it(x):\n    assert f() == x\n",
    "computed table": "@pytest.mark.parametrize('x', [*make(), 'abc'])\ndef test_it(x):\n    assert f() == x\n",
    "fixture of two tests": """
        @pytest.fixture
        def wanted():
            return 'abc'

        def test_it(wanted):
            assert f() == wanted

        def test_other(wanted):
            assert g(wanted)
        """,
    "fixture with code": "@pytest.fixture\ndef wanted():\n    begin()\n    return 'abc'\n\ndef test_it(wanted):\n    assert f() == wanted\n",
}


@pytest.mark.req("G-01")
@pytest.mark.parametrize("source", ALSO_USED.values(), ids=ALSO_USED)
def test_values_that_are_used_elsewhere_are_not_changed(source: str) -> None:
    assert {mutation.kind for mutation in mutations_of(source).values()} <= {"condition"}


def test_mutations_refuse_another_source() -> None:
    source = b"def test_it():\n    assert f() == 'abcd'\n"
    (by_row,) = find_mutations(source, [("test_it",)], "seed").values()
    with pytest.raises(ValueError, match="line 2 is not"):
        apply_mutations(source.replace(b"abcd", b"wxyz"), [(by_row[None], 0)])
