"""Reading YAML documents before any schema is applied."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agentbench.contract import yaml_document as module
from agentbench.contract.yaml_document import MAX_BYTES, Document, parse_document, read_document
from agentbench.core.errors import ContractError

pytestmark = pytest.mark.component


def rejection(data: str | bytes) -> str:
    with pytest.raises(ContractError) as caught:
        parse_document(data.encode() if isinstance(data, str) else data, "f")
    return "\n".join(caught.value.problems)


def problems_in(text: str) -> str:
    return "\n".join(str(problem) for problem in parse_document(text.encode(), "f").problems)


@pytest.mark.parametrize(
    "text, value",
    [
        ("a: 1", 1),
        ("a: -7", -7),
        ("a: 1.5", 1.5),
        ("a: 1e3", 1000.0),
        ("a: yes", True),
        ("a: off", False),
        ("a: null", None),
        ("a:", None),
        ("a: 'yes'", "yes"),
        ('a: "3.10"', "3.10"),
        ("a: 2024-01-01", "2024-01-01"),
        ("a: 1:30", "1:30"),
        ("a: 1.2.3", "1.2.3"),
        ("a: deadbeef", "deadbeef"),
        ("a: |\n  one\n  two\n", "one\ntwo\n"),
        ("a: [x, {b: c}]", ["x", {"b": "c"}]),
        ("x: &n [1]\na: *n", [1]),
    ],
)
def test_scalars_lists_and_aliases_are_read(text: str, value: object) -> None:
    document = parse_document(text.encode(), "f")
    assert document.problems == ()
    assert document.value["a"] == value


def test_keys_are_text_even_if_they_look_like_booleans() -> None:
    assert parse_document(b"env: {NO: x, on: y}", "f").value == {"env": {"NO": "x", "on": "y"}}


def test_every_key_and_item_has_a_line() -> None:
    document = parse_document(b"# comment\na:\n  b:\n    - x\n    - c: 1\n", "f")
    assert document.line(("a",)) == 2
    assert document.line(("a", "b", 0)) == 4
    assert document.line(("a", "b", 1, "c")) == 5
    assert document.line(("a", "missing")) == 2


@pytest.mark.parametrize(
    "data, words",
    [
        (b"", "empty file"),
        (b"# only a comment\n", "empty file"),
        (b"---\n...\n", "expected a mapping"),
        (b"- a\n- b\n", "expected a mapping"),
        (b"just text", "expected a mapping"),
        (b"a: 1\n---\nb: 2\n", "f:2: expected one YAML document"),
        (b"a:\n\tb: 1\n", "f:2: invalid YAML: tab used"),
        (b"a: [1, 2\n", "invalid YAML"),
        (b"a: 'open\n", "invalid YAML"),
        (b"a: b: c\n", "f:1: invalid YAML"),
        (b"a: *nobody\n", "*nobody has no anchor"),
        (b"a: !!python/object/apply:os.system ['true']\n", "tags such as tag:yaml.org,2002:python"),
        (b"a: !secret x\n", "tags such as !secret"),
        (b"a: !!binary aGk=\n", "tags such as"),
        (b"ok: 1\nb: \xff\xfe\n", "f:2: not UTF-8"),
        ("a: x".encode("utf-16"), "not UTF-8"),
        (b"a: \x01\n", "invalid YAML"),
        (b"[" * 50_000, "nested deeper"),
        (b"a: " + b"[" * 100 + b"]" * 100, "nested deeper"),
        (b"a: " + b"x" * MAX_BYTES, "larger than"),
        (b"a: [" + b"1," * 250_000 + b"]", "more than 200,000 values"),
    ],
)
@pytest.mark.req("C-01")
def test_anything_but_one_mapping_is_rejected(data: bytes, words: str) -> None:
    assert words in rejection(data)


@pytest.mark.req("C-01")
def test_alias_bomb_is_rejected_before_it_expands() -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert "aliases expand to more than" in rejection("\n".join(lines))


def test_alias_inside_itself_is_rejected() -> None:
    assert "an alias inside itself" in problems_in("a: &a {b: *a}")


@pytest.mark.parametrize(
    "text, words",
    [
        ("a: 1\nb: 2\na: 3\n", "f:3: a: duplicate key; first on line 1"),
        ("a: {b: 1, b: 1}\n", "a.b: duplicate key"),
        ("x: &x {b: 1}\na:\n  <<: *x\n", "f:3: a: merge keys (<<) are not supported"),
        ("a: 0256", "write a decimal number, or quote it"),
        ("a: 0x1F", "write a decimal number, or quote it"),
        ("a: 0b101", "write a decimal number, or quote it"),
        ("a: 1_000", "write a decimal number, or quote it"),
        ("a: .inf", "write a decimal number, or quote it"),
        ("a: 1234567890123456789012345678901234567890", "too large for a number; if it is text, quote it"),
        ("a: 12e4567", "too large for a number; if it is text, quote it"),
        ("a: 9007199254740993", "too large for a number"),
        ('a: "x\\0y"', "contains a NUL"),
        ("? [a]\n: b\n", "a key must be text"),
    ],
)
@pytest.mark.req("C-01")
def test_ambiguous_yaml_is_reported_and_the_rest_is_read(text: str, words: str) -> None:
    assert words in problems_in(text)


def test_commit_id_that_starts_like_a_binary_number_is_text() -> None:
    commit = "0b77553794e289a1a955118d4fd495aa2a4cc2d2"
    assert parse_document(f"a: {commit}".encode(), "f").value == {"a": commit}


@pytest.mark.parametrize("make", ["folder", "fifo", "missing", "loop"])
def test_non_regular_file_is_rejected_without_blocking(tmp_path: Path, make: str) -> None:
    import os

    path = tmp_path / "task.yaml"
    if make == "folder":
        path.mkdir()
    elif make == "fifo":
        os.mkfifo(path)
    elif make == "loop":
        path.symlink_to(path)
    with pytest.raises(ContractError) as caught:
        read_document(path)
    assert str(path) in caught.value.problems[0]


def test_byte_order_mark_and_crlf_are_ignored() -> None:
    plain = parse_document(b"a: |\n  one\n  two\nb: 1\n", "f")
    other = parse_document(b"\xef\xbb\xbfa: |\r\n  one\r\n  two\r\nb: 1\r\n", "f")
    assert plain.value == other.value


# The prefix keeps texts such as 0E0 out: PyYAML writes them unquoted, and our reader takes them for numbers.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20).map(lambda text: f"t{text}")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcdef", min_size=1), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text("abcdef", min_size=1), JSON, max_size=5))
def test_dumped_yaml_is_read_back(value: dict[str, object]) -> None:
    text = yaml.safe_dump(value)
    assert parse_document(text.encode(), "f").value == value


def test_pure_python_parser_gives_the_same_document(monkeypatch: pytest.MonkeyPatch) -> None:
    example = (Path(__file__).parent / "short_example" / "task.yaml").read_bytes()
    fast = parse_document(example, "f")
    monkeypatch.setattr(module, "_PARSER", yaml.SafeLoader)
    slow = parse_document(example, "f")
    assert isinstance(fast, Document)
    assert fast == slow
    for bad in (b"a:\n\tb: 1\n", b"a: \x01\n", b"[" * 3000, b'a: "\\ud800"', b"%YAML 9.9\n--- a", b"a: [1"):
        assert _outcome(bad)


def _outcome(data: bytes) -> tuple[str, ...]:
    try:
        return tuple(str(problem) for problem in parse_document(data, "f").problems)
    except ContractError as error:
        return error.problems
