"""Mutated tests fail for correct values, and only the end of a test is mutated."""

from __future__ import annotations

import builtins
import re
import secrets
import textwrap
import types
import unittest
from collections.abc import Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentbench.acceptance.decoys.mutate import find_mutations
from agentbench.acceptance.decoys.mutation import apply_mutations

pytestmark = pytest.mark.component

PLACE = ("test_it",)


def decoys_of(source: str, seed: str = "") -> list[str]:
    """Return the source with each wrong expected value that its test can have."""
    data = textwrap.dedent(source).encode()
    mutations = find_mutations(data, [PLACE], seed or secrets.token_hex(4))
    return [
        apply_mutations(data, [(mutation, number)]).decode()
        for by_row in mutations.values()
        for mutation in by_row.values()
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
    "sum": ("assert f() == x + 1", {"f": lambda: 3, "x": 2}),
    "two lines": ("assert f() == int(\n        1)", {"f": lambda: 1}),
    "loop": ("for x, wanted in [(1, 2), (2, 3)]:\n        assert f(x) == wanted", {"f": lambda x: x + 1}),
    "assigned name": ("wanted = ['a', 1]\n    assert f() == wanted", {"f": lambda: ["a", 1]}),
    "unittest": ("self.assertEqual(f(), 3)", {"f": lambda: 3}),
    "unittest reversed": ("self.assertEqual(3, f())", {"f": lambda: 3}),
    "helper": ("assert_equal(f(), 3)", {"f": lambda: 3, "assert_equal": unittest.TestCase().assertEqual}),
}
INVERTED_CONDITIONS = {
    "truth": ("assert f()", {"f": lambda: 1}),
    "name": ("assert f() == wanted", {"f": lambda: [1], "wanted": [1]}),
    "empty list": ("assert f() == []", {"f": list}),
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
    def __init__(self, *values: object) -> None: ...

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.req("G-01")
@pytest.mark.parametrize("line", [line for line, _ in CHANGED_VALUES.values() if "unittest" not in line], ids=str)
def test_objects_equal_to_everything_pass_both(line: str) -> None:
    given: dict[str, object] = {"f": EqualToEverything, "assert_equal": unittest.TestCase().assertEqual, "x": 0}
    source = f"def test_it({'self' if 'self.' in line else ''}):\n    {line}\n"
    decoy = first_decoy(source)
    assert decoy is not None
    assert outcome(source, given) == outcome(decoy, given) == "passed"


@pytest.mark.req("G-01", "G-14")
@pytest.mark.parametrize("expected", ["ValueError", "TypeError", "KeyError", "errors.Broken"])
def test_another_exception_of_the_same_kind_is_expected(expected: str) -> None:
    source = f"""
def test_it():
    with pytest.raises({expected}):
        f()

def test_other():
    with pytest.raises(errors.Lost):
        f()
"""
    decoys = decoys_of(source)
    assert decoys
    for decoy in decoys:
        other = re.search(r"raises\((.*)\)", decoy)
        assert other is not None
        if "." in expected:
            assert other[1] == "errors.Lost"
        else:
            real, wrong = getattr(builtins, expected), getattr(builtins, other[1])
            assert not issubclass(real, wrong)
            assert not issubclass(wrong, real)


@pytest.mark.req("G-01")
@pytest.mark.parametrize("expected", ["ValueError", "TypeError", "IndexError", "KeyError", "RuntimeError"])
def test_frequent_exceptions_are_often_the_wrong_ones(expected: str) -> None:
    """Otherwise code that raises a frequent exception wherever a test names it would always be right."""
    source = f"def test_it():\n    with pytest.raises({expected}):\n        f()\n"
    wrong = [decoys_of(source, str(seed))[0] for seed in range(200)]
    frequent = "TypeError" if expected == "ValueError" else "ValueError"
    share = sum(f"raises({frequent})" in decoy for decoy in wrong) / len(wrong)
    assert 0.35 < share < 0.75 if expected == "ValueError" else share == 1


@pytest.mark.req("G-01")
def test_any_assertion_at_the_end_may_be_changed() -> None:
    """Otherwise code could answer the last one honestly and agree with all others."""
    lines = ["call()", "assert a() == 1", "assert b() == 12", "c = d()", "assert c == 23", "assert e() is True"]
    source = "def test_it():\n    " + "\n    ".join(lines) + "\n"
    changed = {
        at
        for seed in range(60)
        for decoy in decoys_of(source, str(seed))
        for at, line in enumerate(decoy.splitlines()[1:])
        if line.strip() != lines[at]
    }
    assert changed == {1, 2, 4}


@pytest.mark.req("G-01")
@pytest.mark.parametrize("ordered", [True, False])
def test_elements_are_exchanged_where_their_order_matters(ordered: bool) -> None:
    """Otherwise code that agrees with every list made of its input would be right."""
    line = "assert f([3, 1, 2]) == [1, 2, 3]" if ordered else "self.assertCountEqual(f([3, 1, 2]), [1, 2, 3])"
    source = f"def test_it(self):\n    {line}\n"
    decoys = [decoys_of(source, str(seed))[0] for seed in range(100)]
    lists = [sorted(re.findall(r"[0-9]", decoy)) for decoy in decoys]
    assert all(decoy != source for decoy in decoys)
    share = lists.count(sorted("312123")) / len(lists)
    assert 0.3 < share < 0.7 if ordered else share == 0


@pytest.mark.req("G-01")
def test_rows_of_a_list_are_exchanged() -> None:
    """Otherwise code that agrees with its rows in any order would be right."""
    source = "def test_it():\n    assert f() == [('b', 2), ('a', 1)]\n"
    decoys = [decoys_of(source, str(seed))[0] for seed in range(100)]
    assert 0.3 < sum("[('a', 1), ('b', 2)]" in decoy for decoy in decoys) / len(decoys) < 0.7


@pytest.mark.req("G-01")
@pytest.mark.parametrize(
    "line, kind", [("f() is True", "condition"), ("f() == False", "condition"), ("f() == [1]", "value")]
)
def test_truth_values_count_as_conditions(line: str, kind: str) -> None:
    """Code that gives the other answer than the base repository is right."""
    mutations = find_mutations(f"def test_it():\n    assert {line}\n".encode(), [PLACE], "")
    assert mutations[PLACE][None].kind == kind


constants = st.recursive(
    st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | st.binary() | st.booleans(),
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(st.text(), inner, min_size=1, max_size=3),
    max_leaves=6,
)


@pytest.mark.req("G-01")
@example(5e-324)
@given(constants)
def test_no_value_passes_its_decoys(value: object) -> None:
    source = f"def test_it():\n    assert value == {value!r}\n"
    decoys = decoys_of(source)
    assert len({source, *decoys}) == len(decoys) + 1
    assert outcome(source, {"value": value}) == "passed"
    for decoy in decoys:
        assert outcome(decoy, {"value": value}) == "AssertionError"


@pytest.mark.req("G-01")
@pytest.mark.parametrize(
    "real, pattern",
    [
        ("1200", "[1-9][1-9]00"),
        ("37", "[1-9][1-9]"),
        ("256", "64|128|512|1024"),
        ("404", "[2345][0-9][0-9]"),
        ("0xff", "0x[1-9a-f]{2}"),
        ("2.50", "[0-9]+[.]50"),
        ("3.14159", "3[.][1-9]{5}"),
        ("'2024-02-28'", "'[0-9]{4}-(0[1-9]|1[0-2])-(1[3-9]|2[0-8])'"),
        ("'Hello World'", "'World Hello'|'H[aeiou]llo W[aeiou]rld'|'He[a-z]{3} Wo[a-z]{3}'"),
        (r"'\x41b\n'", r"'\\x41[a-z]\\n'"),
    ],
)
def test_wrong_values_are_written_in_the_style_of_the_real_one(real: str, pattern: str) -> None:
    for seed in range(20):
        for decoy in decoys_of(f"def test_it():\n    assert f() == {real}\n", str(seed)):
            assert re.fullmatch(pattern, decoy.rpartition("== ")[2].strip()), decoy


@pytest.mark.req("G-01")
def test_the_same_seed_gives_the_same_wrong_values() -> None:
    """Otherwise two gradings of one task would reveal the value that they have in common."""
    source = "def test_it():\n    assert f() == [1, 'some text']\n"
    assert decoys_of(source, "x") == decoys_of(source, "x")
    assert len({tuple(decoys_of(source, str(seed))) for seed in range(20)}) > 1


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
    (by_row,) = find_mutations(data, [("A", "test_it")], "seed").values()
    mutation = by_row[None]
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
        assert "\\n" in decoy
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
    assert apply_mutations(source, [(mutations[PLACE][None], 0)]).startswith(b"def test_it():\n    assert (a and b)\n")


@pytest.mark.parametrize(
    "line",
    [
        "assert f() == approx(2.5)",
        "assert f() == Fraction(5, 12)",
        "assert f() == {1, 2}",
        "assert 'abcd' in f()",
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
    kept = [sum(str(part) in decoys_of(source, str(seed))[0] for part in (1000, 2000, 3000)) for seed in range(40)]
    first = [str(1000) in decoys_of(source, str(seed))[0] for seed in range(40)]
    assert set(kept) == {2, 3}  # two elements may be exchanged
    assert set(first) == {True, False}


def test_names_that_are_also_used_otherwise_keep_their_value() -> None:
    once = "def test_it():\n    wanted = 100\n    assert f() == wanted\n"
    assert all(decoy.endswith("\n    assert f() == wanted\n") for decoy in decoys_of(once))
    twice = "def test_it():\n    wanted = 100\n    assert f(wanted) == wanted\n"
    assert decoys_of(twice) == [twice.replace("==", "!=")]
    changed = "def test_it():\n    wanted = 100\n    wanted += 1\n    assert f() == wanted\n"
    assert decoys_of(changed) == [changed.replace("==", "!=")]


def test_the_last_test_of_a_name_counts() -> None:
    source = "def test_it():\n    assert f() == 1\n\ndef test_it():\n    assert f() == 1\n    g()\n"
    assert first_decoy(source) is None


@pytest.mark.req("G-01", "G-14")
@pytest.mark.parametrize(
    "line", ["assert 'Usage' in f()", "with pytest.raises(E, match='Usage'):\n        f()"], ids=["in", "match"]
)
def test_texts_that_are_searched_for_do_not_become_other_texts_of_the_file(line: str) -> None:
    """An honest solution may print them as well."""
    source = f"TEXTS = ['Error', 'Abort', 'Usage']\n\n\ndef test_it():\n    g('Error', 'Abort', 'Usage')\n    {line}\n"
    for seed in range(20):
        decoys = decoys_of(source, str(seed))
        assert decoys
        assert all(decoy.count("Error") == source.count("Error") for decoy in decoys)
        assert all(decoy.count("Abort") == source.count("Abort") for decoy in decoys)


HELPERS = {
    "in the module": "def check(text, wanted):\n    assert f(text) == wanted\n\n\ndef test_it():\n    {call}\n",
    "in the test": "def test_it():\n    def check(text, wanted):\n        g = f(text)\n        assert g == wanted\n\n    {call}\n",
    "branches": "def check(text, wanted, plain=True):\n    if plain:\n        assert f(text) == wanted\n    else:\n"
    "        assert str(f(text)) == str(wanted)\n\n\ndef test_it():\n    {call}\n",
    "both sides": "def check(actual, wanted):\n    assert actual == wanted\n\n\ndef test_it():\n    {call}\n",
}


@pytest.mark.req("G-01")
@pytest.mark.parametrize("call", ["check(len('abc'), 3)", "check(len('abc'), wanted=3)"])
@pytest.mark.parametrize("source", HELPERS.values(), ids=HELPERS)
def test_values_given_to_comparing_helpers_are_changed(source: str, call: str) -> None:
    source = source.format(call=call)
    decoys = decoys_of(source, "seed")
    assert decoys
    assert all("len('abc')" in decoy and "!=" not in decoy for decoy in decoys)
    assert outcome(source, {"f": lambda value: value}) == "passed"
    assert {outcome(decoy, {"f": lambda value: value}) for decoy in decoys} == {"AssertionError"}


@pytest.mark.req("G-14")
@pytest.mark.parametrize(
    "body",
    [
        "    if f(text):\n        assert f(text) == wanted\n",
        "    if wanted:\n        assert f(text) == wanted\n",
        "    if text:\n        assert f(text) == wanted\n",
        "    if not f(text):\n        return\n    assert f(text) == wanted\n",
        "    assert f(text) == wanted\n    g(wanted)\n",
        "    wanted = g()\n    assert f(text) == wanted\n",
    ],
    ids=["a result decides", "also a condition", "one branch", "returns", "other use", "replaced"],
)
def test_helpers_that_may_not_compare_give_no_decoy(body: str) -> None:
    assert decoys_of(f"def check(text, wanted):\n{body}\n\ndef test_it():\n    check('a', 3)\n") == []


@pytest.mark.req("G-01")
def test_new_assertions_are_changed_before_others() -> None:
    """The unchanged code may pass the others."""
    source = b"def test_it():\n    assert f(1) == 11\n    assert f(2) == 22\n    assert f(3) == 33\n"
    for seed in range(10):
        (mutation,) = find_mutations(source, [PLACE], str(seed), new_lines=frozenset({3}))[PLACE].values()
        assert mutation.original == "22"


@pytest.mark.req("G-14")
def test_numbers_stay_in_texts_that_are_searched_for() -> None:
    """An honest message may name several: "version 3 cannot be read, but version 2 can"."""
    for seed in range(20):
        decoys = decoys_of("def test_it():\n    assert 'version 3' in f()\n", str(seed))
        assert decoys
        assert all("3" in decoy for decoy in decoys)


@pytest.mark.req("G-14")
@pytest.mark.parametrize(
    "expected, tolerance",
    [("314, abs=20", 20), ("314, rel=0.1", 31), ("314, 0.1", 31), ("[314, 314], abs=20", 20)],
)
def test_no_result_is_near_the_real_and_a_wrong_value(expected: str, tolerance: float) -> None:
    decoys = [
        decoy
        for seed in range(20)
        for decoy in decoys_of(f"def test_it():\n    assert f() == approx({expected})\n", str(seed))
    ]
    numbers = {int(number) for decoy in decoys for number in re.findall(r"\d{3}", decoy)}
    assert numbers - {314}
    assert all(abs(number - 314) > 2 * tolerance for number in numbers - {314})
    assert all(expected.partition(", ")[2].rpartition(", ")[2] in decoy for decoy in decoys if "!=" not in decoy)


@pytest.mark.req("G-14")
def test_tolerances_that_are_not_literals_leave_no_other_value() -> None:
    source = "def test_it():\n    value = 314\n    assert f() == approx({})\n"
    assert all("!=" in decoy for decoy in decoys_of(source.format("value, abs=20")))
    assert all("!=" in decoy for decoy in decoys_of(source.format("314, abs=near")))
    assert any("==" in decoy for decoy in decoys_of(source.format("value")))


@pytest.mark.req("G-14")
def test_arguments_of_new_classes_stay() -> None:
    """Whether two tokens on different lines are equal is for the solution to decide."""
    source = b"def test_it():\n    assert f() == [Token('alpha', 1), Node('beta', 2)]\n"
    drawn = {
        mutation.original
        for seed in range(20)
        for mutation in find_mutations(source, [PLACE], str(seed), frozenset({"Token"}))[PLACE].values()
    }
    assert drawn == {"'beta'", "2"}


@pytest.mark.parametrize(
    "lines",
    [
        ["assert f() == 25  # 5 times 5 is 25"],
        ["# the answer is 25", "assert f() == 25"],
        ['"""Return 25."""', "assert f() == 25"],
        ["assert f() == 25, 'f() must be 25'"],
        ["assert f() == 'some text'  # not 'other text' but 'some text'"],
    ],
)
def test_values_that_the_test_repeats_in_words_are_not_changed(lines: list[str]) -> None:
    """A decoy would change the value and leave the words, which tell the real one."""
    source = "def test_it():\n    " + "\n    ".join(lines) + "\n"
    assert all("!=" in decoy for decoy in decoys_of(source))
    assert any("==" in decoy for decoy in decoys_of(source.replace("25", "2", 1).replace("some", "any", 1)))


def test_values_in_the_name_of_a_test_are_not_changed() -> None:
    source = "def test_gives_404():\n    assert f() == 404\n    assert g() == 405\n"
    mutations = find_mutations(source.encode(), [("test_gives_404",)], "seed")
    assert mutations["test_gives_404",][None].original == "405"


@pytest.mark.parametrize(
    "source",
    [
        "# gives 25\n@mark\ndef test_it():\n    assert f() == 25",
        "@mark  # gives 25\ndef test_it():\n    assert f() == 25",
        "class TestIt:\n    'f() is 25.'\n\ndef test_it():\n    assert f() == 25",
        '"""f() is 25."""\n\ndef test_it():\n    assert f() == 25',
        "def test_it(self):\n    self.assertEqual(f(), 25, 'not 25')",
        "def test_it(self):\n    self.assertEqual(f(), 25, msg='not 25')",
    ],
)
def test_values_that_the_file_repeats_around_the_test_are_not_changed(source: str) -> None:
    assert not [decoy for decoy in decoys_of(source) if "!=" not in decoy and "NotEqual" not in decoy]
    assert decoys_of(source.replace("25", "35", 1))


@pytest.mark.parametrize(
    "table",
    [
        "[pytest.param('ecole', 'ecole', id='ecole'), pytest.param('garcon', 'garcon', id='garcon')]",
        "[pytest.param(1, 'ecole', id='ecole or ecole'), pytest.param(2, 'garcon', id='garcon or garcon')]",
        "[(1, 'ecole'), (2, 'garcon')], ids=['ecole', 'garcon']",
        "[(1, 'ecole'), (2, 'garcon')], ids=NAMES",
    ],
)
def test_rows_whose_id_contains_the_value_have_no_decoy(table: str) -> None:
    """Code under test can read the ids of rows. A decoy changes one only if it repeats nothing but the expected value, once."""
    source = (
        f"NAMES = ['ecole', 'garcon']\n\n@pytest.mark.parametrize('a, b', {table})\n"
        "def test_it(a, b):\n    assert f(a) == b\n"
    )
    assert not [decoy for decoy in decoys_of(source) if "!=" not in decoy]
    renamed = re.sub(r"(id='|NAMES = \['|ids=\[')ecole", r"\1school", source)
    assert [decoy for decoy in decoys_of(renamed) if "!=" not in decoy]


@pytest.mark.parametrize(
    "rows, decoy",
    [
        ("(1, 'ecole', id='is ecole'), (2, 'garcon')", r"\(1, '(\w+)', id='is \1'\)"),
        ("([1, 2], 1.5, id='gives 1.5'), ([1, 4], 2.5, id='gives 2.5')", r"\], (\d\.\d), id='gives \1'\)"),
        ("(5, -3, id='5 gives -3'), (6, -4)", r"\(5, -(\d), id='5 gives -\1'\)"),
    ],
)
def test_id_of_a_row_changes_with_the_value_that_it_repeats(rows: str, decoy: str) -> None:
    table = rows.replace("(", "pytest.param(").replace("param([", "param([")
    source = f"@pytest.mark.parametrize('a, b', [{table}])\ndef test_it(a, b):\n    assert f(a) == b\n"
    changed = [text for text in decoys_of(source) if "id=" in text and text.split("id=")[1] != source.split("id=")[1]]
    assert changed
    assert all(re.search(decoy, text) for text in changed)


def test_texts_that_differ_in_case_are_no_wrong_values() -> None:
    """Correct code may return a text that ignores it."""
    used = "".join(f"    use({other!r})\n" for other in ["Content-Length", "CONTENT-LENGTH"] * 3)
    source = f"def test_it():\n{used}    assert f() == 'content-length'\n    assert g() == 'content-length'\n"
    drawn = {
        replacement
        for seed in range(20)
        for mutation in find_mutations(source.encode(), [PLACE], str(seed))[PLACE].values()
        for replacement in mutation.replacements
    }
    assert drawn
    assert "'content-length'" not in {text.casefold() for text in drawn}
