"""Texts, values and exception types that hidden tests demand without telling the solver."""

from __future__ import annotations

import textwrap

import pytest

from agentbench.authoring.commit.demands import Demand, KnownTexts, find_demands

pytestmark = [pytest.mark.req("C-10", "C-18"), pytest.mark.component]

BASE = "def loads(text):\n    return text\n"


def patch_of(code: str, path: str = "a.py") -> bytes:
    added = "".join(f"+{line}\n" for line in textwrap.dedent(code).splitlines())
    return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1,2 +1,9 @@\n{added}".encode()


def demands(test: str, fix: str, statement: str = "It accepts bytes, it should not.", base: str = BASE) -> list[Demand]:
    source = f"def test_it():\n{textwrap.indent(textwrap.dedent(test), '    ')}".encode()
    known = KnownTexts(statement, base, base)
    return list(find_demands({"tests/test_a.py": source}, ["tests/test_a.py::test_it[x]"], patch_of(fix), known))


FIX = """
if not isinstance(text, str):
    raise TypeError(f"Expected str object, not '{type(text).__name__}'")
"""


@pytest.mark.parametrize(
    "test",
    [
        "with pytest.raises(TypeError, match=\"Expected str object, not 'bytes'\"):\n    loads(b'')\n",
        "with pytest.raises(TypeError) as e:\n    loads(b'')\nassert str(e.value) == \"Expected str object, not 'bytes'\"\n",
        "with pytest.raises(TypeError) as e:\n    loads(b'')\nassert 'Expected str object' in str(e.value)\n",
        "with self.assertRaisesRegex(TypeError, 'Expected str object'):\n    loads(b'')\n",
    ],
)
def test_exact_message_and_new_exception_type_are_demands(test: str) -> None:
    exception, message = demands(test, FIX)
    assert (exception.kind, exception.wanted) == ("exception", "TypeError")
    assert exception.suggestion == "`loads(b'')` raises `TypeError`."
    assert message.kind == "text"
    assert "Expected str object" in message.wanted
    assert message.place.startswith("tests/test_a.py:")
    assert "Expected str object" in message.suggestion


def test_exception_types_of_parameters_are_demands() -> None:
    source = """
@pytest.mark.parametrize(("value", "error"), [(1, BadValue), pytest.param(2, Overflow, id="two"), (3, TypeError)])
@pytest.mark.parametrize("other", [Unused])
def test_it(value, error, other, fixture_error):
    with pytest.raises(error):
        loads(value)
    with pytest.raises(fixture_error):
        loads(None)
"""
    known = KnownTexts("It should raise TypeError.", BASE, BASE)
    found = find_demands({"tests/test_a.py": source.encode()}, ["tests/test_a.py::test_it[1]"], patch_of(FIX), known)
    assert [demand.wanted for demand in found] == ["BadValue", "Overflow"]
    assert found[0].suggestion == "`loads(value)` raises `BadValue`."


def test_statement_that_gives_message_and_type_leaves_no_demand() -> None:
    test = "with pytest.raises(TypeError, match=\"Expected str object, not 'bytes'\"):\n    loads(b'')\n"
    statement = "loads(b'') should raise TypeError: Expected str object,\nnot 'bytes'."
    assert demands(test, FIX, statement) == []


def test_type_that_the_changed_file_already_raises_is_no_demand() -> None:
    test = "with pytest.raises(TypeError):\n    loads(b'')\n"
    assert demands(test, FIX, base=f"{BASE}\n    raise TypeError('bad')\n") == []


def test_message_that_the_base_repository_contains_is_no_demand() -> None:
    test = "with pytest.raises(TypeError, match='Expected str object'):\n    loads(b'')\n"
    assert demands(test, FIX, base=f"{BASE}\nraise TypeError('Expected str object, not ')\n") == []


def test_value_that_only_the_fix_contains_is_a_demand() -> None:
    (text,) = demands("assert kind(1) == 'unsigned-long'\n", "return 'unsigned-long'\n")
    assert (text.kind, text.wanted) == ("value", "'unsigned-long'")
    assert text.suggestion == "`kind(1) == 'unsigned-long'` holds."
    (number,) = demands("self.assertEqual(limit(), 4711)\n", "LIMIT = 4711\n")
    assert (number.kind, number.wanted) == ("value", "4711")


def test_results_that_follow_from_the_input_are_no_demands() -> None:
    assert demands("assert half(3) == 1.5\nassert name('ab cd') == 'AB CD'\n", "return value / 2\n") == []
    assert demands("assert len(rows()) == 3\n", "return [1, 2, 3]\n") == []


def test_tests_that_are_not_required_have_no_demands() -> None:
    source = b"def test_other():\n    assert kind(1) == 'unsigned-long'\n"
    known = KnownTexts("", BASE, BASE)
    fix = patch_of("return 'unsigned-long'")
    assert find_demands({"tests/test_a.py": source}, ["tests/test_a.py::test_it"], fix, known) == ()


def test_text_of_documentation_is_not_code() -> None:
    known = KnownTexts("", BASE, BASE)
    source = b"def test_it():\n    assert kind(1) == 'unsigned-long'\n"
    fix = patch_of("it returns 'unsigned-long'", path="README.md")
    assert find_demands({"tests/test_a.py": source}, ["tests/test_a.py::test_it"], fix, known) == ()


def test_text_that_the_base_repository_contains_is_no_demand() -> None:
    test = "assert f\"Invalid '{key}' value\" in captured.err\n"
    fix = "raise Bad(f\"Invalid 'validate' value in {path}\")\n"
    base = "raise Bad(f\"Invalid 'wrap' value in {path}\")\n"
    assert demands(test, fix, base=base) == []
    assert demands(test, fix) != []


def test_parts_of_an_f_string_are_one_demand() -> None:
    (demand,) = demands(
        "assert f'Cannot read {name} as text' in captured.err\n", "warn(f'Cannot read {name} as text')\n"
    )
    assert demand.wanted == "'Cannot read ' and ' as text'"
    assert demand.suggestion == "`'Cannot read … as text' in captured.err` holds."


@pytest.mark.parametrize(
    "test,sentence",
    [
        (
            "captured = capsys.readouterr()\nassert 'no such port' in captured.err",
            "The standard error contains 'no such port'.",
        ),
        (
            "out, err = capsys.readouterr()\nassert out == f'{name}: no such port'",
            "The output is '…: no such port'.",
        ),
        (
            "with raises(OSError) as e:\n    go()\nassert 'no such port' in str(e.value)",
            "The message of the error contains 'no such port'.",
        ),
        (
            "runner = Runner()\nresult = runner.go('x')\nassert result.output == 'no such port'",
            "`Runner().go('x').output == 'no such port'` holds.",
        ),
        ("self.assertEqual(go('x'), 'no such port')", "`go('x') == 'no such port'` holds."),
    ],
)
def test_sentences_avoid_names_that_only_the_test_knows(test: str, sentence: str) -> None:
    source = f"def test_it(self, capsys, name):\n{textwrap.indent(test, '    ')}".encode()
    known = KnownTexts("OSError", BASE, BASE)
    found = find_demands(
        {"tests/test_a.py": source}, ["tests/test_a.py::test_it"], patch_of("warn('no such port')\n"), known
    )
    assert [demand.suggestion for demand in found] == [sentence]


@pytest.mark.parametrize(
    "text,sentence",
    [
        ("--allow-unicode", "There is a command line option '--allow-unicode'."),
        ("- allow", "The value '- allow' is supported."),
        ("unsigned-long", "The value 'unsigned-long' is supported."),
    ],
)
def test_text_that_a_test_only_uses_gets_a_whole_sentence(text: str, sentence: str) -> None:
    (demand,) = demands(f"run({text!r})\n", f"ACCEPTED = [{text!r}]\n")
    assert demand.suggestion == sentence


@pytest.mark.parametrize(
    "base, known", [('W = "{0} weken"\nassert w == "2 weken"\n', False), ('assert w == "2 weke"\n', True)]
)
def test_part_of_a_longer_word_does_not_give_a_text(base: str, known: bool) -> None:
    found = demands("assert w(2) == '2 weke'\n", 'W = "{0} weke"\n', base=base)
    assert [demand.wanted for demand in found] == ([] if known else ["'2 weke'"])
