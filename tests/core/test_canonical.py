from __future__ import annotations

import json
from enum import IntEnum, StrEnum

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.canonical import (
    SAFE_INTEGER,
    CanonicalError,
    Json,
    canonical,
    digest,
    parse_canonical,
    parse_strict,
)

pytestmark = [pytest.mark.req("E-01"), pytest.mark.component]

any_text = st.text(st.characters(exclude_categories=()), max_size=12)
keys = any_text | st.sampled_from(["\U00010000", "\ue000", "a", "ä", "\ud800", "b\U0001f600", "\uffff"])
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-SAFE_INTEGER, SAFE_INTEGER)
    | st.sampled_from([SAFE_INTEGER, SAFE_INTEGER + 1, -SAFE_INTEGER, -SAFE_INTEGER - 1])
    | st.floats()
    | st.floats(-1e17, 1e17)
    | st.floats(0, 1e-3)
    | st.sampled_from(
        [
            0.2,
            1.0,
            -0.0,
            -3.0,
            2.0**53,
            1.5,
            139.2,
            1e-4,
            9.999e-5,
            1e16,
            9007199254740993.5,
            0.1 + 0.2,
            1e-7,
            123456789.125,
        ]
    )
    | any_text
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)


def reference(value: Json) -> bytes | None:
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        return None


def ours(value: Json) -> bytes | None:
    try:
        return canonical(value)
    except CanonicalError:
        return None


@given(values)
def test_fast_encoder_agrees_with_the_reference(value: Json) -> None:
    assert ours(value) == reference(value)


@given(values)
def test_canonical_form_round_trips(value: Json) -> None:
    data = ours(value)
    if data is not None:
        assert canonical(parse_canonical(data)) == data
        assert canonical(parse_strict(data)) == data


@given(values, st.data())
def test_changing_any_byte_changes_the_value(value: Json, data: st.DataObject) -> None:
    written = ours(value)
    if not written:
        return
    place = data.draw(st.integers(0, len(written) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda one: one != written[place]))
    mutated = written[:place] + bytes([byte]) + written[place + 1 :]
    try:
        again = parse_canonical(mutated)
    except CanonicalError:
        return
    assert canonical(again) != written


@given(values)
def test_formatting_and_key_order_do_not_matter(value: Json) -> None:
    data = ours(value)
    if data is None:
        return
    loose = json.dumps(parse_canonical(data), indent=1, ensure_ascii=True)
    reordered = json.loads(loose, object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    assert canonical(reordered) == data


@pytest.mark.parametrize(
    "data",
    [
        b'{"b":1,"a":2}',
        b'{"a":1, "b":2}',
        b' {"a":1}',
        b'{"a":1}\n',
        b'{"a":1,"a":1}',
        b'{"a":1.0}',
        b'{"a":1e2}',
        b'{"a":-0}',
        b'{"a":01}',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":9007199254740993}',
        b'{"a":"\\u0041"}',
        b'{"a":"\\/"}',
        b'{"a":"\\ud800"}',
        b'{"a":"\xff"}',
        b'{"a":1}{"a":1}',
        b"",
        b"{",
        b"[" * 100_000,
        b"9" * 10_000,
        b"1" + b"0" * 350,
    ],
)
def test_non_canonical_bytes_are_rejected(data: bytes) -> None:
    with pytest.raises(CanonicalError):
        parse_canonical(data)


@pytest.mark.parametrize(
    "data", [b'{"a":1,"a":2}', b'{"x":{"a":1,"b":2,"a":1}}', b"[NaN]", b'"\\udc80"', b"1e999", b"nul"]
)
def test_strict_parser_rejects_ambiguous_json(data: bytes) -> None:
    with pytest.raises(CanonicalError):
        parse_strict(data)


def test_strict_parser_names_the_duplicate_key() -> None:
    with pytest.raises(CanonicalError, match="'twice'"):
        parse_strict(b'{"twice": 1, "once": 2, "twice": 3}')


def test_large_float_that_looks_like_an_integer_round_trips() -> None:
    assert canonical(1e20) == b"100000000000000000000"
    assert parse_canonical(b"100000000000000000000") == 1e20


def test_deep_nesting_is_rejected() -> None:
    value: list[Json] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(CanonicalError, match="deep"):
        canonical(value)


def test_cycle_is_rejected() -> None:
    value: list[Json] = []
    value.append(value)
    with pytest.raises(CanonicalError, match="deep"):
        canonical(value)


def test_enumerations_are_written_as_their_values() -> None:
    class Colour(StrEnum):
        RED = "red"

    class Size(IntEnum):
        BIG = 3

    assert canonical({"c": Colour.RED, "s": Size.BIG, "l": (True, None)}) == b'{"c":"red","l":[true,null],"s":3}'
    assert digest({"c": Colour.RED}) == digest({"c": "red"})
