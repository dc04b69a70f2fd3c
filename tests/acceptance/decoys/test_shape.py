"""Both versions of a test compile to the same shape."""

from __future__ import annotations

import ast
import dis
import types
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.acceptance.decoys.mutate import find_mutations
from agentbench.acceptance.decoys.mutation import apply_mutations
from agentbench.acceptance.decoys.shape import Shape, constants_of

pytestmark = pytest.mark.component

PLACE = ("test_it",)
literals = st.one_of(
    st.integers(-300, 2000),
    st.floats(0, 1000, allow_nan=False).map(lambda number: round(number, 2)),
    st.sampled_from(["", "a", "some words", "Total: 12", "2024-03-05", "x\n", b"raw", True]),
)
values = st.recursive(
    literals,
    lambda inner: st.lists(inner, min_size=1, max_size=4) | st.lists(inner, min_size=1, max_size=3).map(tuple),
    max_leaves=5,
)


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


@pytest.mark.req("G-01")
@given(values, st.lists(literals, max_size=3), st.integers(0, 9))
def test_decoys_compile_to_the_same_instructions(value: object, inputs: list[object], seed: int) -> None:
    """Only the intended literal differs, or two are exchanged, and constants have the same types."""
    source = f"OTHER = {inputs!r}\n\n\ndef test_it():\n    assert f({', '.join(map(repr, inputs))}) == {value!r}\n"
    for mutation in find_mutations(source.encode(), [PLACE], str(seed)).get(PLACE, {}).values():
        for number in range(len(mutation.replacements)):
            decoy = apply_mutations(source.encode(), [(mutation, number)])
            assert decoy.replace(mutation.replacements[number].encode(), b"") != b""
            real, wrong = (list(ast.walk(ast.parse(text))) for text in (source, decoy))
            changed = [
                (one, other)
                for one, other in zip(real, wrong, strict=True)
                if isinstance(one, ast.Constant) and isinstance(other, ast.Constant) and one.value != other.value
            ]
            if mutation.kind == "value":
                values = [(one.value, other.value) for one, other in changed]
                left, right = (sorted(map(repr, side)) for side in zip(*values, strict=True))
                assert len(values) == 1 or left == right
                assert all(type(one) is type(other) for one, other in values)
                compiled = [list(codes(compile(text, "t", "exec"))) for text in (source, decoy)]
                for one, other in zip(*compiled, strict=True):
                    names = [[step.opname for step in dis.get_instructions(code)] for code in (one, other)]
                    assert names[0] == names[1]


def is_same(source: str, real: str, wrong: str) -> bool:
    shape = Shape(source.encode(), constants_of(source.encode()), expression=False)
    before, _, after = source.rpartition(real)
    return shape.is_same(f"{before}{wrong}{after}".encode())


@pytest.mark.req("G-01")
@pytest.mark.parametrize(
    "source, real, wrong, same",
    [
        ("def test_it():\n    assert f('abc') == 'xyz'\n", "'xyz'", "'xyy'", True),
        ("def test_it():\n    assert f('abc') == 'xyz'\n", "'xyz'", "'abc'", False),
        ("def test_it():\n    assert f('abc') == 'abc'\n", "'abc'", "'abd'", False),
        ("def test_it():\n    assert f('abc', 'def') == 'abc'\n", "'abc'", "'def'", True),
        ("def test_it():\n    assert f(1) == 2\n", "2", "3", True),
        ("def test_it():\n    assert f(1) == 2\n", "2", "1", False),
        ("def test_it():\n    assert f() == 256\n", "256", "257", False),
        ("A = 2.5\ndef test_it():\n    assert f() == 2.5\n", "2.5", "3.5", False),
    ],
)
def test_sharing_of_constants_is_part_of_the_shape(source: str, real: str, wrong: str, *, same: bool) -> None:
    assert is_same(source, real, wrong) is same


def test_constants_of_other_functions_are_part_of_the_shape() -> None:
    source = b"A = 'abc'\n\n\ndef test_it():\n    assert f() == 'abc'\n"
    part = source[source.index(b"def") :]
    shape = Shape(part, constants_of(source), expression=False)
    assert not shape.is_same(part.replace(b"abc", b"abd"))
    assert shape.is_similar(part.replace(b"abc", b"abd"))
