"""Mutated tests fail for correct values, and only the end of a test is mutated."""

from __future__ import annotations

import ast
import re
import secrets
import textwrap
import types
import unittest
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.acceptance.decoys.mutate import apply_mutations, find_mutations

pytestmark = pytest.mark.component

PLACE = ("test_it",)


def decoys_of(source: str, seed: str = "") -> list[str]:
    """Return the source with each wrong expected value that its test can have."""
    data = textwrap.dedent(source).encode()
    mutations = find_mutations(data, [PLACE], seed or secrets.token_hex(4))
    return [
        apply_mutations(data, [(mutation, number)]).decode()
        for mutation in mutations.values()
        for number in range(len(mutation.replacements))
    ]


def first_decoy(source: str) -> str | None:
    return next(iter(decoys_of(source)), None)


def outcome(source: str, given: Mapping[str, object]) -> str:
    """Call the test without pytest and return how it ended."""
    scope = {"pytest": pytest, "__builtins__": __builtins__, **given}
    exec(compile(source, "test.py", "exec"), scope)  # noqa: S102 - the sources below
    test = scope["test_it"]
    assert isinstance(test, types.FunctionType)
    try:
        test(*([unittest.TestCase()] if test.__code__.co_argcount else []))
    except BaseException as error:  # noqa: BLE001 - pytest raises its own exceptions
        return type(error).__name__
    return "passed"


CHANGED_VALUES = {
    "number": ("assert f() == 3", {"f": lambda: 3}),
    "negative number": ("assert f() == -3", {"f": lambda: -3}),
    "text": ("assert f() == 'a b'", {"f": lambda: "a b"}),
    "empty text": ("assert f() == ''", {"f": str}),
    "bytes": ("assert f() == b'xyz'", {"f": lambda: b"xyz"}),
    "list": ("assert f() == [x, [1, 'é']]", {"f": lambda: [0, [1, "é"]], "x": 0}),
    "dictionary": ("assert f() == {'a': None, 'b': 1.5}", {"f": lambda: {"a": None, "b": 1.5}}),
    "reversed": ("assert 3 == f()", {"f": lambda: 3}),
    "name": ("assert f() == wanted", {"f": lambda: [1], "wanted": [1]}),
    "two lines": ("assert f() == g(\n        1)", {"f": lambda: 1, "g": lambda x: x}),
    "assigned name": ("wanted = ['a', 1]\n    assert f() == wanted", {"f": lambda: ["a", 1]}),
    "unittest": ("self.assertEqual(f(), 3)", {"f": lambda: 3}),
    "unittest with a name": ("self.assertEqual(f(), wanted)", {"f": lambda: 3, "wanted": 3}),
}
INVERTED_CONDITIONS = {
    "truth": ("assert f()", {"f": lambda: 1}),
    "identity": ("assert f() is None", {"f": lambda: None}),
    "flag": ("assert f() is True", {"f": lambda: True}),
    "membership": ("assert 1 in f()", {"f": lambda: [1]}),
    "chain": ("assert 1 < f() < 3", {"f": lambda: 2}),
    "unittest truth": ("self.assertTrue(f())", {"f": lambda: 1}),
    "unittest membership": ("self.assertIn(1, f())", {"f": lambda: [1]}),
    "exception": ("with pytest.raises(ValueError):\n        f('x')", {"f": int}),
    "inside with": ("with open('/dev/null') as file:\n        assert file.read() == f()", {"f": str}),
    "loop over literals": ("for value in (1, 2):\n        assert f(value)", {"f": bool}),
}


@pytest.mark.req("G-01", "C-19")
@pytest.mark.parametrize(
    "line, given",
    [*CHANGED_VALUES.values(), *INVERTED_CONDITIONS.values()],
    ids=[*CHANGED_VALUES, *INVERTED_CONDITIONS],
)
def test_correct_values_fail_the_decoys(line: str, given: dict[str, object]) -> None:
    source = f"def test_it({'self' if 'self.' in line else ''}):\n    {line}\n"
    assert outcome(source, given) == "passed"
    decoys = decoys_of(source)
    assert decoys
    for decoy in decoys:
        assert outcome(decoy, given) != "passed", decoy


class EqualToEverything:
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.req("G-01")
@pytest.mark.parametrize("line", [line for line, _ in CHANGED_VALUES.values() if "unittest" not in line], ids=str)
def test_objects_equal_to_everything_pass_both(line: str) -> None:
    given: dict[str, object] = {"f": EqualToEverything, "g": lambda x: x, "wanted": [1], "x": 0}
    source = f"def test_it({'self' if 'self.' in line else ''}):\n    {line}\n"
    decoy = first_decoy(source)
    assert decoy is not None
    assert outcome(source, given) == outcome(decoy, given) == "passed"


class Number(float):
    """Compares like a numpy number: element by element, and a result of several elements has no truth value."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, list | tuple):
            return float(self) == other
        if len(other) != 1:
            raise ValueError(other)
        return bool(float(self) == other[0])

    __hash__ = float.__hash__


@pytest.mark.req("G-01", "G-14")
def test_numpy_like_numbers_pass_only_the_real_test() -> None:
    given: dict[str, object] = {"f": lambda: Number(2.5), "wanted": 2.5}
    source = "def test_it():\n    assert f() == wanted\n"
    assert outcome(source, given) == "passed"
    assert [outcome(decoy, given) for decoy in decoys_of(source)] == ["AssertionError"] * 3
    # The type of the expected value is unknown: then it is put into a list, twice.
    given["wanted"] = Number(2.5)
    assert [outcome(decoy, given) for decoy in decoys_of(source)] == ["ValueError"] * 3


@pytest.mark.req("G-01", "G-14")
@pytest.mark.parametrize("expected", ["ValueError", "TypeError", "KeyError", "(OSError, LookupError)"])
def test_exceptions_of_several_types_fail_the_decoys(expected: str) -> None:
    class Several(ValueError, TypeError, KeyError, OSError): ...

    def f() -> None:
        raise Several

    source = f"def test_it():\n    with pytest.raises({expected}):\n        f()\n"
    assert outcome(source, {"f": f}) == "passed"
    decoys = decoys_of(source)
    assert decoys
    assert {outcome(decoy, {"f": f}) for decoy in decoys} == {"Several"}


constants = st.recursive(
    st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | st.binary() | st.booleans(),
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(st.text(), inner, min_size=1, max_size=3),
    max_leaves=6,
)


@pytest.mark.req("G-01")
@given(constants)
def test_any_value_has_another(value: object) -> None:
    source = f"def test_it():\n    assert value == {value!r}\n"
    decoys = decoys_of(source)
    assert decoys
    assert len({source, *decoys}) == len(decoys) + 1
    assert outcome(source, {"value": value}) == "passed"
    for decoy in decoys:
        assert outcome(decoy, {"value": value}) == "AssertionError"


@pytest.mark.req("G-01")
@given(st.integers(-(10**9), 10**9), st.text(min_size=1, max_size=5, alphabet="abc"))
def test_numbers_of_all_versions_form_a_range(value: int, seed: str) -> None:
    """The values do not reveal which one is real."""
    decoys = decoys_of(f"def test_it():\n    assert f() == {value}\n", seed)
    values = sorted([value, *(int(ast.literal_eval(decoy.rpartition("== ")[2].strip())) for decoy in decoys)])
    assert values == list(range(values[0], values[0] + 4))


def test_the_real_number_has_any_position_in_the_range() -> None:
    def place(seed: str) -> int:
        decoys = decoys_of("def test_it():\n    assert f() == 100\n", seed)
        return sum(decoy.rpartition("== ")[2].strip().zfill(3) < "100" for decoy in decoys)

    assert {place(str(seed)) for seed in range(60)} == {0, 1, 2, 3}


@pytest.mark.req("G-01")
def test_the_same_seed_gives_the_same_wrong_values() -> None:
    """Otherwise two gradings of one task would reveal the value that they have in common."""
    source = "def test_it():\n    assert f() == [1, 'some text']\n"
    assert decoys_of(source, "x") == decoys_of(source, "x")
    assert len({tuple(decoys_of(source, str(seed))) for seed in range(20)}) > 1


def test_texts_differ_in_the_same_letter() -> None:
    source = "def test_it():\n    assert f() == 'some text'\n"
    decoys = decoys_of(source)
    places = [[at for at, pair in enumerate(zip(source, decoy, strict=True)) if pair[0] != pair[1]] for decoy in decoys]
    assert len(decoys) == 3
    assert places == [places[0]] * 3
    assert len(places[0]) == 1


@pytest.mark.req("G-01")
@given(st.text())
def test_any_text_can_be_searched_for_mutations(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    assert find_mutations(data, [PLACE], "seed") == {} or b"def test_it" in data


@pytest.mark.req("G-01")
@pytest.mark.parametrize(
    "source",
    [
        "def test_it():\n    assert f() == 1\n    clear_up()\n",
        "def test_it():\n    if f():\n        assert f() == 1\n",
        "def test_it():\n    try:\n        assert f() == 1\n    finally:\n        pass\n",
        "def test_it():\n    for value in f():\n        assert value == 1\n",
        "@given(x)\ndef test_it(x):\n    assert x == 1\n",
        "@pytest.mark.xfail\ndef test_it():\n    assert f() == 1\n",
        "def test_it():\n    if f():\n        return\n    assert f() == 1\n",
        "with a:\n    def test_it():\n        assert f() == 1\n",
        "def test_it():\n    with pytest.warns(W):\n        assert f() == 1\n",
        "def test_it():\n    assert True\n",
        "def test_it(:\n    assert f() == 1\n",
    ],
)
def test_ambiguous_tests_have_no_decoy(source: str) -> None:
    assert first_decoy(source) is None


def test_only_the_wanted_test_is_mutated() -> None:
    source = "class A:\r\n    def test_it(self):\r\n        é = x; assert é == 1\r\n\r\ndef test_it():\r\n    assert f() == 1\r\n"
    data = source.encode()
    (mutation,) = find_mutations(data, [("A", "test_it")], "seed").values()
    before, _, after = source.partition("1\r")
    decoy = apply_mutations(data, [(mutation, 0)]).decode()
    assert decoy != source
    assert decoy.startswith(before)
    assert decoy.endswith("\r" + after)


def test_returns_of_nested_functions_are_ignored() -> None:
    assert first_decoy("def test_it():\n    def helper():\n        return 1\n    assert helper() == 1\n") is not None


def test_text_is_mutated_as_written() -> None:
    source = 'def test_it():\n    assert f() == "it\'s a \\n line"\n'
    for _ in range(20):
        decoy = first_decoy(source)
        assert decoy is not None
        assert len(decoy) == len(source)
        assert decoy.count('"') == source.count('"')


@pytest.mark.parametrize(
    "line, decoy",
    [
        ("assert a in b", "assert a not in b"),
        ("assert a < b", "assert a >= b"),
        ("assert a is None", "assert a is not None"),
        ("assert a(b)", "assert not a(b)"),
        ("assert not a", "assert a"),
        ("assert (a) in b", "assert not ((a) in b)"),
        ("assert a and b", "assert not (a and b)"),
    ],
)
def test_conditions_are_inverted_idiomatically(line: str, decoy: str) -> None:
    assert first_decoy(f"def test_it():\n    {line}\n") == f"def test_it():\n    {decoy}\n"


def test_inverted_parentheses_do_not_break_other_decoys() -> None:
    source = b"def test_it():\n    assert not (a and b)\n\n\ndef test_other():\n    assert f() == 1\n"
    mutations = find_mutations(source, [PLACE, ("test_other",)], "seed")
    assert set(mutations) == {PLACE, ("test_other",)}
    assert apply_mutations(source, [(mutations[PLACE], 0)]).startswith(b"def test_it():\n    assert (a and b)\n")


@pytest.mark.parametrize(
    "line",
    [
        "assert f() == approx(2.5)",
        "assert f() == Fraction(5, 12)",
        "assert f() == {1, 2}",
        "assert 'abc' in f()",
        "with pytest.raises(E, match='some words'):\n        f()",
    ],
)
def test_nested_values_are_mutated_in_place(line: str) -> None:
    source = f"def test_it():\n    {line}\n"
    decoys = decoys_of(source)
    assert decoys
    assert all(re.sub(r"[\w.-]", "", decoy) == re.sub(r"[\w.-]", "", source) for decoy in decoys)


def test_any_element_may_be_the_wrong_one() -> None:
    source = "def test_it():\n    assert f() == [1000, 2000, 3000]\n"
    kept = [sum(str(part) in decoys_of(source, str(seed))[0] for part in (1000, 2000, 3000)) for seed in range(9)]
    first = [str(1000) in decoys_of(source, str(seed))[0] for seed in range(40)]
    assert set(kept) == {2}
    assert set(first) == {True, False}


def test_assigned_values_are_mutated_if_used_once() -> None:
    once = "def test_it():\n    wanted = 100\n    assert f() == wanted\n"
    assert all(decoy.endswith("\n    assert f() == wanted\n") for decoy in decoys_of(once))
    twice = "def test_it():\n    wanted = 100\n    assert f(wanted) == wanted\n"
    assert all(
        decoy.startswith("def test_it():\n    wanted = 100\n    assert f(wanted) == (") for decoy in decoys_of(twice)
    )
    changed = "def test_it():\n    wanted = 100\n    wanted += 1\n    assert f() == wanted\n"
    assert decoys_of(changed)[0].endswith(")(wanted)\n")


VARIED = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, width=32, max_value=1e6, min_value=-1e6),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.lists(inner).map(tuple),
    max_leaves=5,
)


@pytest.mark.req("G-01")
@given(VARIED | st.text() | st.binary() | st.sets(st.integers() | st.text()), st.integers(0, 99))
def test_computed_values_become_other_values_of_their_type(value: object, seed: int) -> None:
    compared: list[object] = []

    class Recorder:
        def __eq__(self, other: object) -> bool:
            compared.append(other)
            return False

        __hash__ = None  # type: ignore[assignment]

    decoys = decoys_of("def test_it():\n    assert f() == wanted\n", str(seed))
    assert {outcome(decoy, {"f": Recorder, "wanted": value}) for decoy in decoys} == {"AssertionError"}
    kind: type = type(value) if value or isinstance(value, bool | int | float | set) else list
    assert [type(other) for other in compared] == [kind] * len(decoys)
    # The wrong value in a dictionary may happen to equal the real one. Then the reference passes it, and it is left out.
    assert isinstance(value, dict) or value not in compared


def test_the_given_side_of_a_comparison_is_mutated() -> None:
    source = "def test_it(values, wanted):\n    got = f(values)\n    assert wanted == got\n"
    assert all(re.search(r"assert \(lambda y: .*\)\(wanted\) == got$", decoy.strip()) for decoy in decoys_of(source))


def test_the_last_test_of_a_name_counts() -> None:
    source = "def test_it():\n    assert f() == 1\n\ndef test_it():\n    assert f() == 1\n    g()\n"
    assert first_decoy(source) is None
