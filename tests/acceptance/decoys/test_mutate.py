"""A false expectation: what met the true one cannot meet it, and nothing but the end of a test is touched."""

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

from agentbench.acceptance.decoys.mutate import alterations, altered

HERE = ("test_it",)


def twins_of(source: str, seed: str = "") -> list[str]:
    """The source with each false expectation that its test can be given."""
    data = textwrap.dedent(source).encode()
    found = alterations(data, [HERE], seed or secrets.token_hex(4))
    return [altered(data, [(one, number)]).decode() for one in found.values() for number in range(len(one.texts))]


def falsified(source: str) -> str | None:
    return next(iter(twins_of(source)), None)


def outcome(source: str, given: Mapping[str, object]) -> str:
    """How a test ends that is called without a runner."""
    scope = {"pytest": pytest, "__builtins__": __builtins__, **given}
    exec(compile(source, "test.py", "exec"), scope)  # noqa: S102 - what is written below
    test = scope["test_it"]
    assert isinstance(test, types.FunctionType)
    try:
        test(*([unittest.TestCase()] if test.__code__.co_argcount else []))
    except BaseException as error:  # noqa: BLE001 - pytest fails by one of its own
        return type(error).__name__
    return "passed"


TELLING = {
    "number": ("assert f() == 3", {"f": lambda: 3}),
    "negative number": ("assert f() == -3", {"f": lambda: -3}),
    "text": ("assert f() == 'a b'", {"f": lambda: "a b"}),
    "empty text": ("assert f() == ''", {"f": str}),
    "bytes": ("assert f() == b'xyz'", {"f": lambda: b"xyz"}),
    "list": ("assert f() == [x, [1, 'é']]", {"f": lambda: [0, [1, "é"]], "x": 0}),
    "dictionary": ("assert f() == {'a': None, 'b': 1.5}", {"f": lambda: {"a": None, "b": 1.5}}),
    "the other way round": ("assert 3 == f()", {"f": lambda: 3}),
    "a name": ("assert f() == wanted", {"f": lambda: [1], "wanted": [1]}),
    "over two lines": ("assert f() == g(\n        1)", {"f": lambda: 1, "g": lambda x: x}),
    "a name that was given": ("wanted = ['a', 1]\n    assert f() == wanted", {"f": lambda: ["a", 1]}),
    "unittest": ("self.assertEqual(f(), 3)", {"f": lambda: 3}),
    "unittest with a name": ("self.assertEqual(f(), wanted)", {"f": lambda: 3, "wanted": 3}),
}
TURNED = {
    "truth": ("assert f()", {"f": lambda: 1}),
    "identity": ("assert f() is None", {"f": lambda: None}),
    "flag": ("assert f() is True", {"f": lambda: True}),
    "membership": ("assert 1 in f()", {"f": lambda: [1]}),
    "chain": ("assert 1 < f() < 3", {"f": lambda: 2}),
    "unittest truth": ("self.assertTrue(f())", {"f": lambda: 1}),
    "unittest membership": ("self.assertIn(1, f())", {"f": lambda: [1]}),
    "exception": ("with pytest.raises(ValueError):\n        f('x')", {"f": int}),
    "in a context": ("with open('/dev/null') as file:\n        assert file.read() == f()", {"f": str}),
    "in a loop over what is written there": ("for value in (1, 2):\n        assert f(value)", {"f": bool}),
}


@pytest.mark.req("G-01", "C-19")
@pytest.mark.parametrize("line, given", [*TELLING.values(), *TURNED.values()], ids=[*TELLING, *TURNED])
def test_what_met_the_truth_does_not_meet_its_twin(line: str, given: dict[str, object]) -> None:
    source = f"def test_it({'self' if 'self.' in line else ''}):\n    {line}\n"
    assert outcome(source, given) == "passed"
    twins = twins_of(source)
    assert twins
    for twin in twins:
        assert outcome(twin, given) != "passed", twin


class Agreeable:
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.req("G-01")
@pytest.mark.parametrize("line", [line for line, _ in TELLING.values() if "unittest" not in line], ids=str)
def test_what_equals_everything_meets_both(line: str) -> None:
    given: dict[str, object] = {"f": Agreeable, "g": lambda x: x, "wanted": [1], "x": 0}
    source = f"def test_it({'self' if 'self.' in line else ''}):\n    {line}\n"
    twin = falsified(source)
    assert twin is not None
    assert outcome(source, given) == outcome(twin, given) == "passed"


class Number(float):
    """Compares like a number of numpy: with each of a list, and some truth values are no truth value."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, list | tuple):
            return float(self) == other
        if len(other) != 1:
            raise ValueError(other)
        return bool(float(self) == other[0])

    __hash__ = float.__hash__


@pytest.mark.req("G-01", "G-14")
def test_a_number_that_compares_like_one_of_numpy_is_right_once() -> None:
    given: dict[str, object] = {"f": lambda: Number(2.5), "wanted": 2.5}
    source = "def test_it():\n    assert f() == wanted\n"
    assert outcome(source, given) == "passed"
    assert [outcome(twin, given) for twin in twins_of(source)] == ["AssertionError"] * 3
    # Of what kind the other one is nobody knows: then it is in a list, and more than once.
    given["wanted"] = Number(2.5)
    assert [outcome(twin, given) for twin in twins_of(source)] == ["ValueError"] * 3


@pytest.mark.req("G-01", "G-14")
@pytest.mark.parametrize("awaited", ["ValueError", "TypeError", "KeyError", "(OSError, LookupError)"])
def test_an_error_of_several_kinds_is_not_what_a_twin_awaits(awaited: str) -> None:
    class Several(ValueError, TypeError, KeyError, OSError): ...

    def f() -> None:
        raise Several

    source = f"def test_it():\n    with pytest.raises({awaited}):\n        f()\n"
    assert outcome(source, {"f": f}) == "passed"
    twins = twins_of(source)
    assert twins
    assert {outcome(twin, {"f": f}) for twin in twins} == {"Several"}


constants = st.recursive(
    st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | st.binary() | st.booleans(),
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(st.text(), inner, min_size=1, max_size=3),
    max_leaves=6,
)


@pytest.mark.req("G-01")
@given(constants)
def test_any_value_has_another(value: object) -> None:
    source = f"def test_it():\n    assert value == {value!r}\n"
    twins = twins_of(source)
    assert twins
    assert len({source, *twins}) == len(twins) + 1
    assert outcome(source, {"value": value}) == "passed"
    for twin in twins:
        assert outcome(twin, {"value": value}) == "AssertionError"


@pytest.mark.req("G-01")
@given(st.integers(-(10**9), 10**9), st.text(min_size=1, max_size=5, alphabet="abc"))
def test_the_true_number_is_anywhere_among_the_others(value: int, seed: str) -> None:
    """Which of them all it is cannot be seen from what they are."""
    twins = twins_of(f"def test_it():\n    assert f() == {value}\n", seed)
    values = sorted([value, *(int(ast.literal_eval(twin.rpartition("== ")[2].strip())) for twin in twins)])
    assert values == list(range(values[0], values[0] + 4))


def test_the_true_number_has_no_place_of_its_own_among_them() -> None:
    def place(seed: str) -> int:
        twins = twins_of("def test_it():\n    assert f() == 100\n", seed)
        return sum(twin.rpartition("== ")[2].strip().zfill(3) < "100" for twin in twins)

    assert {place(str(seed)) for seed in range(60)} == {0, 1, 2, 3}


@pytest.mark.req("G-01")
def test_the_same_seed_gives_the_same_false_values() -> None:
    """Else who sees two gradings of one task knows what both have in common."""
    source = "def test_it():\n    assert f() == [1, 'some text']\n"
    assert twins_of(source, "x") == twins_of(source, "x")
    assert len({tuple(twins_of(source, str(seed))) for seed in range(20)}) > 1


def test_texts_differ_in_one_letter_and_all_in_the_same() -> None:
    source = "def test_it():\n    assert f() == 'some text'\n"
    twins = twins_of(source)
    places = [[at for at, pair in enumerate(zip(source, twin, strict=True)) if pair[0] != pair[1]] for twin in twins]
    assert len(twins) == 3
    assert places == [places[0]] * 3
    assert len(places[0]) == 1


@pytest.mark.req("G-01")
@given(st.text())
def test_no_text_is_too_strange_to_be_looked_at(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    assert alterations(data, [HERE], "seed") == {} or b"def test_it" in data


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
def test_what_could_be_right_both_ways_has_no_twin(source: str) -> None:
    assert falsified(source) is None


def test_only_the_test_that_is_asked_for_is_touched() -> None:
    source = "class A:\r\n    def test_it(self):\r\n        é = x; assert é == 1\r\n\r\ndef test_it():\r\n    assert f() == 1\r\n"
    data = source.encode()
    (found,) = alterations(data, [("A", "test_it")], "seed").values()
    before, _, after = source.partition("1\r")
    twin = altered(data, [(found, 0)]).decode()
    assert twin != source
    assert twin.startswith(before)
    assert twin.endswith("\r" + after)


def test_what_a_helper_in_a_test_returns_is_no_matter() -> None:
    assert falsified("def test_it():\n    def helper():\n        return 1\n    assert helper() == 1\n") is not None


def test_text_is_altered_as_it_is_written() -> None:
    source = 'def test_it():\n    assert f() == "it\'s a \\n line"\n'
    for _ in range(20):
        twin = falsified(source)
        assert twin is not None
        assert len(twin) == len(source)
        assert twin.count('"') == source.count('"')


@pytest.mark.parametrize(
    "line, twin",
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
def test_conditions_are_turned_as_people_would_write_it(line: str, twin: str) -> None:
    assert falsified(f"def test_it():\n    {line}\n") == f"def test_it():\n    {twin}\n"


def test_a_turned_condition_in_brackets_takes_no_other_twin_away() -> None:
    source = b"def test_it():\n    assert not (a and b)\n\n\ndef test_other():\n    assert f() == 1\n"
    found = alterations(source, [HERE, ("test_other",)], "seed")
    assert set(found) == {HERE, ("test_other",)}
    assert altered(source, [(found[HERE], 0)]).startswith(b"def test_it():\n    assert (a and b)\n")


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
def test_values_within_are_altered_rather_than_something_put_around_them(line: str) -> None:
    source = f"def test_it():\n    {line}\n"
    twins = twins_of(source)
    assert twins
    assert all(re.sub(r"[\w.-]", "", twin) == re.sub(r"[\w.-]", "", source) for twin in twins)


def test_any_part_of_what_is_expected_may_be_the_false_one() -> None:
    source = "def test_it():\n    assert f() == [1000, 2000, 3000]\n"
    kept = [sum(str(part) in twins_of(source, str(seed))[0] for part in (1000, 2000, 3000)) for seed in range(9)]
    first = [str(1000) in twins_of(source, str(seed))[0] for seed in range(40)]
    assert set(kept) == {2}
    assert set(first) == {True, False}


def test_what_a_name_was_given_is_altered_if_it_is_good_for_nothing_else() -> None:
    once = "def test_it():\n    wanted = 100\n    assert f() == wanted\n"
    assert all(twin.endswith("\n    assert f() == wanted\n") for twin in twins_of(once))
    twice = "def test_it():\n    wanted = 100\n    assert f(wanted) == wanted\n"
    assert all(
        twin.startswith("def test_it():\n    wanted = 100\n    assert f(wanted) == (") for twin in twins_of(twice)
    )
    changed = "def test_it():\n    wanted = 100\n    wanted += 1\n    assert f() == wanted\n"
    assert twins_of(changed)[0].endswith(")(wanted)\n")


VARIED = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, width=32, max_value=1e6, min_value=-1e6),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.lists(inner).map(tuple),
    max_leaves=5,
)


@pytest.mark.req("G-01")
@given(VARIED | st.text() | st.binary() | st.sets(st.integers() | st.text()), st.integers(0, 99))
def test_what_is_not_written_in_the_test_becomes_another_value_of_its_kind(value: object, seed: int) -> None:
    asked: list[object] = []

    class Asks:
        def __eq__(self, other: object) -> bool:
            asked.append(other)
            return False

        __hash__ = None  # type: ignore[assignment]

    twins = twins_of("def test_it():\n    assert f() == wanted\n", str(seed))
    assert {outcome(twin, {"f": Asks, "wanted": value}) for twin in twins} == {"AssertionError"}
    kind: type = type(value) if value or isinstance(value, bool | int | float | set) else list
    assert [type(other) for other in asked] == [kind] * len(twins)
    # A value in a dictionary may happen to be what another is put for; then the reference passes it, and it is left out.
    assert isinstance(value, dict) or value not in asked


def test_of_two_sides_the_one_is_altered_that_the_test_was_given() -> None:
    source = "def test_it(values, wanted):\n    got = f(values)\n    assert wanted == got\n"
    assert all(re.search(r"assert \(lambda y: .*\)\(wanted\) == got$", twin.strip()) for twin in twins_of(source))


def test_of_two_tests_with_one_name_the_last_counts() -> None:
    source = "def test_it():\n    assert f() == 1\n\ndef test_it():\n    assert f() == 1\n    g()\n"
    assert falsified(source) is None
