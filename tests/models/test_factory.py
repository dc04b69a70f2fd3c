from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.errors import ContractError, InputError
from agentbench.models.client.endpoint import Dialect
from agentbench.models.client.service import RetryPolicy, retry_after
from agentbench.models.factory import ModelFactory, ModelParams, load_prices
from agentbench.models.json_values import read_object
from agentbench.models.keys import Keys, Secret, parse_env, preset_key_names, read_env_file
from agentbench.models.ledger import Caps
from agentbench.models.presets import bundled_presets, choose, endpoint_of, parse_presets
from agentbench.models.reply_parsing import find_patch
from agentbench.models.scripted import load_script
from agentbench.models.upstream import ModelRequest
from tests.models.conftest import OpenMetered
from tests.models.metered_gateway import PROMPT, script

pytestmark = pytest.mark.component

PRESETS = bundled_presets()
PRICE_EXAMPLE = Path(__file__).parents[2] / "configs/prices/example.csv"

# --- which model -----------------------------------------------------------------------------------------------------


@pytest.mark.req("T-06")
@pytest.mark.parametrize(
    "text, expected",
    [
        ("vendor/name", ("service", "openrouter", "vendor/name", None)),
        ("vendor/name:free", ("service", "openrouter", "vendor/name:free", None)),
        ("openai:gpt-x", ("service", "openai", "gpt-x", None)),
        ("ollama:qwen:7b", ("service", "ollama", "qwen:7b", None)),
        ("q@http://127.0.0.1:8000/v1", ("service", "url", "q", "http://127.0.0.1:8000/v1")),
        ("smollm2", ("service", "llamacpp", "smollm2", None)),
        ("scripted:a/b.yaml", ("scripted", "scripted", "a/b.yaml", None)),
        ("recorded:runs/x", ("recorded", "recorded", "runs/x", None)),
    ],
)
def test_model_option_is_parsed_as_documented(text: str, expected: tuple[str, ...]) -> None:
    choice = choose(text, PRESETS)
    assert (choice.source, choice.provider, choice.name, choice.base_url) == expected


@pytest.mark.parametrize(
    "text",
    ["", "  ", "a\nb", "scripted:", "recorded:", "m@ftp://x", "m@http://", "m@http://u:p@h/v1", "m@http://h:bad/v1"],
)
def test_invalid_model_option_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        choose(text, PRESETS)


@pytest.mark.req("R-15")
def test_preset_overrides_defaults() -> None:
    assert choose("smollm2", PRESETS).sampling.model_dump() == {"temperature": 0.0, "top_p": 1.0, "max_tokens": 512}
    assert choose("x/y", PRESETS).sampling == PRESETS.defaults
    assert PRESETS.identity.startswith("presets_v1@sha256:")


@pytest.mark.req("R-09")
@pytest.mark.parametrize(
    "text, variable", [("vendor/name", "OPENROUTER_API_KEY"), ("anthropic:c", "ANTHROPIC_API_KEY")]
)
def test_missing_key_error_names_the_variable(text: str, variable: str) -> None:
    with pytest.raises(InputError, match=variable) as caught:
        ModelFactory(Keys({})).check(choose(text, PRESETS))
    assert caught.value.exit_code == 2
    with pytest.raises(InputError, match=variable):
        ModelFactory(Keys({variable: "  "})).check(choose(text, PRESETS))


def test_unprintable_key_is_refused_without_showing_it() -> None:
    with pytest.raises(InputError, match="OPENAI_API_KEY") as caught:
        ModelFactory(Keys({"OPENAI_API_KEY": "abc\r\nx: y"})).check(choose("openai:g", PRESETS))
    assert "abc" not in str(caught.value)


@pytest.mark.req("T-06")
def test_each_provider_gets_its_url_and_credentials() -> None:
    keys = Keys({"AZURE_OPENAI_API_KEY": "k", "AZURE_OPENAI_ENDPOINT": "https://me.example/", "ANTHROPIC_API_KEY": "a"})
    azure = endpoint_of(choose("azure:dep", PRESETS), PRESETS, keys)
    assert azure.url(Dialect.CHAT) == "https://me.example/openai/deployments/dep/chat/completions"
    assert azure.credentials(Dialect.CHAT) == {"api-key": "k"}
    claude = endpoint_of(choose("anthropic:c", PRESETS), PRESETS, keys)
    assert claude.credentials(Dialect.MESSAGES) == {"x-api-key": "a"}
    assert claude.credentials(Dialect.CHAT) == {"authorization": "Bearer a"}
    assert endpoint_of(choose("ollama:q", PRESETS), PRESETS, keys).credentials(Dialect.CHAT) == {}
    with pytest.raises(InputError, match="AZURE_OPENAI_ENDPOINT"):
        endpoint_of(choose("azure:dep", PRESETS), PRESETS, Keys({"AZURE_OPENAI_API_KEY": "k"}))


@pytest.mark.req("T-06", "R-09")
def test_only_allowed_endpoints_are_used() -> None:
    def check(text: str, allowed: str) -> None:
        keys = Keys({"OPENAI_API_KEY": "k", "OPENROUTER_API_KEY": "k", "AB_ALLOWED_ENDPOINTS": allowed})
        ModelFactory(keys).check(choose(text, PRESETS))

    check("m@http://127.0.0.1:8000/v1", "127.0.0.1")
    check("m@https://models.corp.example/v1", "*.corp.example, 127.0.0.1")
    check("openai:g", "https://api.openai.com")
    for text, allowed in (
        ("openai:g", "127.0.0.1"),
        ("m@https://corp.example.evil.org/v1", "*.corp.example"),
        ("m@https://api.openai.com.evil.org/v1", "https://api.openai.com"),
        ("m@http://api.openai.com/v1", "https://api.openai.com"),
        ("x/y", "nowhere"),
    ):
        with pytest.raises(InputError, match="is not allowed"):
            check(text, allowed)


def test_presets_are_validated() -> None:
    good = {"version": 2, "default_provider": "p", "providers": {"p": {"base_url": "http://h/v1", "key": None}}}
    assert parse_presets(json.dumps(good).encode(), "presets.json").identity.startswith("presets_v2@")
    for bad in (
        good | {"default_provider": "q"},
        good | {"models": {"m": {"provider": "q", "name": "n"}}},
        good | {"extra": 1},
        good | {"defaults": {"temperature": 9}},
    ):
        with pytest.raises(InputError):
            parse_presets(json.dumps(bad).encode(), "presets.json")


# --- keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.req("R-09")
def test_env_file_is_parsed_like_a_shell() -> None:
    text = (
        "# comment\n\nA=plain\nexport B = spaced \nC='single # not a comment'\n"
        'D="double \\" quote\\n"\nE=value # comment\nF=\nG=a#b\r\nH="with = sign"\n'
    )
    assert parse_env(text, ".env").values == {
        "A": "plain",
        "B": "spaced",
        "C": "single # not a comment",
        "D": 'double " quote\n',
        "E": "value",
        "F": "",
        "G": "a#b",
        "H": "with = sign",
    }


@pytest.mark.parametrize("line", ["no qqvalue", "A='qqvalue", 'A="qqvalue', "1A=qqvalue", "=qqvalue"])
def test_missing_key_error_lists_env_file_problems_without_values(tmp_path: Path, line: str) -> None:
    (tmp_path / ".env").write_text(f"OK=1\n{line}\nOPENAI_API_KEY=k\n")
    keys = Keys.find({}, tmp_path)
    assert keys.get("OPENAI_API_KEY") is not None
    with pytest.raises(InputError, match="OPENROUTER_API_KEY") as caught:
        keys.require("OPENROUTER_API_KEY", "the model")
    assert ".env:2: " in caught.value.remedy
    assert "qqvalue" not in caught.value.remedy


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r\n\x85\u2028\u2029\x0b\x0c\x1c\x1d\x1e'")))
def test_any_value_survives_single_quotes(value: str) -> None:
    assert parse_env(f"A='{value}'", ".env").values == {"A": value}


@pytest.mark.req("R-09", "E-10a")
def test_environment_overrides_env_file_and_secrets_are_hidden(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OPENAI_API_KEY=from-file\nOPENROUTER_API_KEY=only-file\n")
    keys = Keys.find({"OPENAI_API_KEY": "from-environment"}, tmp_path)
    key = keys.get("OPENAI_API_KEY")
    assert key is not None
    assert key.reveal() == "from-environment"
    assert "from-environment" not in f"{key} {key!r}"
    assert keys.values(preset_key_names()) == {"OPENAI_API_KEY": "from-environment", "OPENROUTER_API_KEY": "only-file"}
    assert not hasattr(Secret("N", "v"), "__dict__")
    (tmp_path / ".env").write_bytes(b"A=\xff")
    assert "not UTF-8" in read_env_file(tmp_path / ".env").problems[0]


# --- retries ---------------------------------------------------------------------------------------------------------


@given(st.integers(1, 20), st.floats(0, 1, exclude_max=True), st.none() | st.floats(0, 100), st.floats(0, 1000))
@pytest.mark.req("T-06")
def test_retry_delays_are_bounded_and_honour_retry_after(
    tried: int, draw: float, asked: float | None, left: float
) -> None:
    policy = RetryPolicy(tries=6, first_sec=0.5, max_sec=30, deadline_sec=600)
    wait = policy.delay(tried, asked, left, draw=draw)
    if tried >= 6:
        assert wait is None
    if wait is not None:
        assert wait >= (asked or 0)
        assert wait >= 0.25
        assert wait < left
        assert wait <= max(30, asked or 0)


@pytest.mark.parametrize(
    "text, expected",
    [("3", 3.0), ("0.5", 0.5), ("-1", 0.0), (None, None), ("soon", None), ("nan", None), ("inf", None)],
)
def test_retry_after_header_is_parsed(text: str | None, expected: float | None) -> None:
    assert retry_after(text) == expected


def test_retry_after_may_be_a_date() -> None:
    assert retry_after("Thu, 01 Jan 1970 00:01:40 GMT", now=90) == 10


# --- text ------------------------------------------------------------------------------------------------------------

DIFF = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"


@pytest.mark.req("T-06")
@pytest.mark.parametrize(
    "text",
    [
        f"Here:\n```diff\n{DIFF}```\nDone.",
        f"Here:\n```\n{DIFF}```",
        f"~~~patch\n{DIFF}~~~",
        f"````diff\n{DIFF}````\n",
        f"- item\n  ```diff\n{''.join('  ' + line + chr(10) for line in DIFF.splitlines())}  ```",
        f"cut off:\n```diff\n{DIFF}",
        f"No fence, just\n{DIFF}",
        f"```python\nprint(1)\n```\nand\n```diff\n{DIFF}```",
    ],
)
def test_patch_in_plain_text_is_found(text: str) -> None:
    assert find_patch(text) == DIFF


def test_several_fences_are_joined_to_one_patch() -> None:
    assert find_patch(f"```diff\n{DIFF}```\ntext\n```diff\n{DIFF}```") == DIFF + DIFF
    assert find_patch("```python\nx = 1\n```\nno diff here --- really") is None
    inner = "--- a/README\n+++ b/README\n@@ -1 +1,3 @@\n+```sh\n+ls\n+```\n"
    assert find_patch(f"```diff\n{inner}```") == inner


@given(st.text())
def test_find_patch_never_fails(text: str) -> None:
    patch = find_patch(text)
    assert patch is None or patch.endswith("\n") or patch == ""


@pytest.mark.parametrize("text", ["", "[1]", '"x"', "{", '{"a": NaN}', '{"a": Infinity}', "[" * 100_000, "nul"])
def test_json_that_is_not_an_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_object(text)


# --- scripts ---------------------------------------------------------------------------------------------------------


def test_script_skips_unmatched_answers_and_then_ends(open_metered: OpenMetered) -> None:
    metered = open_metered(script({"text": "no", "when": "2 failed"}, {"text": "yes"})).open_gateway()
    assert metered.openai().chat.completions.create(model="m", messages=PROMPT).choices[0].message.content == "yes"
    import openai

    with pytest.raises(openai.BadRequestError, match="2 answers"):
        metered.openai().chat.completions.create(model="m", messages=PROMPT)


@pytest.mark.parametrize(
    "text",
    ["[1]", "answers: 1", "answers: [{txt: a}]", "answers: [{error: {status: 200}}]", "a: [", "answers: [{text: 1}]"],
)
def test_invalid_script_is_an_input_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        load_script(file)
    assert str(file) in caught.value.message
    assert caught.value.exit_code == 2


def test_factory_builds_scripted_models_and_refuses_missing_files(tmp_path: Path, open_metered: OpenMetered) -> None:
    from agentbench.models.metered_model import LogSink
    from agentbench.models.protocol import user

    file = tmp_path / "s.yaml"
    file.write_text("answers: [{text: hello}]\n")
    factory = ModelFactory(Keys({}))
    metered = open_metered(script())
    order = ModelParams(factory.ledger.attempt("t", Caps.of(usd=1)), LogSink(metered.log, metered.blobs))
    choice = factory.choose(f"scripted:{file}")
    assert factory.check(choice) is None
    metered_model = factory.metered_model(choice, order)
    assert factory.model(metered_model).complete([user("hi")]).text == "hello"
    with pytest.raises(InputError, match="no such file"):
        factory.check(factory.choose("scripted:missing.yaml"))
    with pytest.raises(InputError, match="no recorded exchanges"):
        factory.metered_model(factory.choose("recorded:runs/x"), order)
    factory.close()


@pytest.mark.req("M-05")
def test_documented_price_table_is_valid(tmp_path: Path) -> None:
    assert load_prices(PRICE_EXAMPLE).rows
    with pytest.raises(InputError, match="cannot read"):
        load_prices(tmp_path / "missing.csv")
    (tmp_path / "bad.csv").write_text("x\n")
    with pytest.raises(ContractError):
        load_prices(tmp_path / "bad.csv")


def test_request_streams_only_if_stream_is_true() -> None:
    assert not ModelRequest(Dialect.CHAT, {"stream": "yes"}).stream
