from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.canonical import sha256_hex
from agentbench.core.errors import ContractError
from agentbench.policy.prices import FALLBACK, FALLBACKS, Prices, Tokens, parse_prices

pytestmark = pytest.mark.component

TABLE = b"""action_type,unit,unit_price,notes,model,direction,vendor
llm_request,1m_tokens,1.00,everything else,,,x
llm_request,1m_tokens,3.00,,vendor/*,prompt,
llm_request,1m_tokens,15.00,,vendor/*,completion,
llm_request,1m_tokens,0.30,,vendor/*,cached,
llm_request,1m_tokens,10.00,,vendor/large,prompt,
llm_request,call,0.001,,,,
tool_call,call,0.0001,,,,
tool_call,hour,0.36,,,,
artifact_storage,gigabyte,0.01,,,,
"""


@pytest.mark.req("M-05")
def test_most_specific_row_wins() -> None:
    table = parse_prices(TABLE, "p.csv")
    million = Tokens(1_000_000, 0)
    assert table.request("other", million) == 1_001_000
    assert table.request("vendor/small", million) == 3_001_000
    assert table.request("vendor/large", million) == 10_001_000
    assert table.request("vendor/large", Tokens(0, 1_000_000)) == 15_001_000
    assert table.request("other", Tokens(1_000_000, 1_000_000, 1_000_000)) == 2_001_000


@pytest.mark.req("M-05")
def test_cached_tokens_use_their_own_price_if_given() -> None:
    table = parse_prices(TABLE, "p.csv")
    assert table.request("vendor/small", Tokens(1_000_000, 0, 400_000)) == 1_000 + 1_800_000 + 120_000
    assert table.request("vendor/small", Tokens(10, 0, 400_000)) == 1_000 + 3, "no more can be cached than was sent"


@pytest.mark.req("M-05", "M-06a")
def test_tools_and_storage_are_priced() -> None:
    table = parse_prices(TABLE, "p.csv")
    assert table.tool_call(10.0) == 100 + 1000
    assert table.storage(2 * 10**9) == 20_000
    assert table.knows("anything")
    assert not parse_prices(b"action_type,unit,unit_price\nllm_request,token,1\n", "p").request("m", Tokens())


@pytest.mark.req("M-05")
def test_table_is_named_by_the_digest_of_its_bytes() -> None:
    assert parse_prices(TABLE, "p.csv").method_id == f"prices@sha256:{sha256_hex(TABLE)}"
    assert parse_prices(TABLE + b"\n", "p.csv").method_id != parse_prices(TABLE, "p.csv").method_id
    assert parse_prices(b"\xef\xbb\xbf" + TABLE, "p.csv").rows == parse_prices(TABLE, "p.csv").rows


@pytest.mark.req("M-05")
def test_invalid_table_lists_every_problem_with_its_line() -> None:
    bad = (
        b"action_type,unit,unit_price,direction\n"
        b"llm_request,tokens,1,\n"
        b"llm_request,token,-1,\n"
        b"llm_request,token,nan,sideways\n"
        b",call,1e99,\n"
        b"tool_call,call,1,\n"
        b"tool_call,request,2,\n"
        b"short\n"
    )
    with pytest.raises(ContractError) as caught:
        parse_prices(bad, "p.csv")
    problems = "\n".join(caught.value.problems)
    for line in (2, 3, 4, 5, 7, 8):
        assert f"p.csv:{line}: " in problems, line
    assert "duplicates line 6" in problems
    assert caught.value.exit_code == 2


@pytest.mark.req("M-05")
@pytest.mark.parametrize(
    "action,hint",
    [
        ("reviw", " (did you mean `review`?)"),
        ("human_review", " (did you mean `review`?)"),
        ("tool_calls", " (did you mean `tool_call`?)"),
        ("Review", " (did you mean `review`?)"),
        ("xyz", ""),
        ("", ""),
    ],
)
def test_unknown_action_type_is_rejected(action: str, hint: str) -> None:
    with pytest.raises(ContractError) as caught:
        parse_prices(f"action_type,unit,unit_price\ntool_call,call,1\n{action},hour,80\n".encode(), "p.csv")
    expected = "llm_request, tool_call, artifact_storage, review"
    assert caught.value.problems == (f"p.csv:3: action_type: expected one of {expected}, found {action!r}{hint}",)


@pytest.mark.parametrize("data", [b"", b"\n", b"a,b\n1,2\n", b"action_type,unit,unit_price\n", b"\xff\xfe", b'"a\nb'])
def test_file_that_is_not_a_table_is_rejected(data: bytes) -> None:
    with pytest.raises(ContractError):
        parse_prices(data, "p.csv")


@given(st.binary(max_size=200))
def test_any_bytes_parse_or_are_rejected(data: bytes) -> None:
    with contextlib.suppress(ContractError):
        assert parse_prices(b"action_type,unit,unit_price\n" + data, "p.csv").rows


@pytest.mark.req("M-05")
def test_fallback_depends_on_the_trace_alone() -> None:
    assert FALLBACK.method_id == "fallback@1"
    assert FALLBACK.unit == "abstract"
    assert FALLBACKS["1"].request("any", Tokens(10**6, 100)) == 2_000 + 4_000
    assert FALLBACK.tool_call(2.0) == 200
    assert FALLBACK.storage(10**7) == 100


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9))
def test_cost_is_never_negative_and_grows_with_use(prompt: int, completion: int, cached: int) -> None:
    tables: list[Prices] = [parse_prices(TABLE, "p.csv"), FALLBACK]
    for prices in tables:
        less, more = Tokens(prompt, completion, cached), Tokens(prompt, completion + 1, cached)
        assert 0 <= prices.request("vendor/m", less) <= prices.request("vendor/m", more)
