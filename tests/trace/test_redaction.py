from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentbench.core.reasons import Outcome
from agentbench.trace.events import AcceptanceCheck, Briefing, ToolCallStarted
from agentbench.trace.json_safe import to_json
from agentbench.trace.log import EventLog, read_events
from agentbench.trace.redaction import _WORDS, Redactor, placeholder
from agentbench.trace.verify import check_chain
from tests.trace.samples import EXAMPLES

pytestmark = [pytest.mark.req("E-10a"), pytest.mark.component]

SECRET = 'p"ss\\w/rd+ü'


def test_placeholder_has_the_name_and_a_short_digest() -> None:
    redact = Redactor({"INDEX_TOKEN": "s3cr3t-value"})
    assert re.fullmatch(r"x \[redacted:INDEX_TOKEN:[0-9a-f]{8}\] y", redact.text("x s3cr3t-value y"))


def test_redaction_does_not_depend_on_the_order_of_names() -> None:
    values = {"A": "alpha-secret", "B": "alpha-secret-longer", "C": "beta-secret"}
    text = "alpha-secret alpha-secret-longer beta-secret"
    one, other = Redactor(values), Redactor(dict(reversed(values.items())))
    assert one.text(text) == other.text(text) == one.text(text)
    assert placeholder("B", values["B"]) in one.text(text)


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        quote(SECRET, safe=""),
        base64.b64encode(SECRET.encode()).decode(),
        f"--token={SECRET}&x",
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        repr(SECRET),
    ],
)
def test_encoded_secrets_are_redacted(form: str) -> None:
    redact = Redactor({"T": SECRET})
    assert placeholder("T", SECRET) in redact.text(f"a {form} b")
    assert placeholder("T", SECRET).encode() in redact.data(f"a {form} b".encode())


@pytest.mark.parametrize(
    "key",
    [
        "sk-or-v1-0123456789abcdef0123456789abcdef",
        "sk-ant-api03-abcdefghijklmnopqrstuvwxyz",
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "AKIAIOSFODNN7EXAMPLE",
        "AIzaSyA-0123456789abcdefghijklmnopqrstu",
    ],
)
def test_text_that_looks_like_an_api_key_is_redacted(key: str) -> None:
    redact = Redactor({})
    assert redact.text(f"key={key};") == f"key={placeholder('API_KEY', key)};"
    assert redact.data(f"key={key};".encode()) == f"key={placeholder('API_KEY', key)};".encode()


@pytest.mark.parametrize("text", ["task-sk-learn", "sk-learn", "risk-free", "AKIA", "a" * 64, "gh_pages"])
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert Redactor({}).text(text) == text


def test_log_contains_no_secrets(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    log = EventLog.create(path, redact=Redactor({"T": SECRET}))
    log.append(Briefing(text=f"use {SECRET}", sha256="", parts={f"k{SECRET}": SECRET}))
    log.append(
        ToolCallStarted(call_id="c", tool="run", arguments={"env": {"T": [SECRET, 1]}, SECRET: "\ud800" + SECRET})
    )
    log.release()
    raw = path.read_bytes()
    assert SECRET.encode() not in raw
    assert b'p\\"ss' not in raw
    assert raw.count(b"[redacted:T:") == 6
    assert check_chain(path).problem is None
    assert len(list(read_events(path))) == 2


def test_secret_that_equals_an_enum_value_keeps_the_log_readable(tmp_path: Path) -> None:
    log = EventLog.create(
        tmp_path / "e.jsonl",
        redact=Redactor({"A": "failed", "B": "harness", "C": "TESTS_FAILED", "D": "failing_tests"}),
    )
    for payload in EXAMPLES:
        log.append(payload)
    read = [event.payload for event in read_events(tmp_path / "e.jsonl")]
    check = next(payload for payload in read if isinstance(payload, AcceptanceCheck))
    assert check.outcome is Outcome.FAIL
    assert "[redacted:A:" in check.why


def test_digest_is_kept_unless_it_is_the_secret() -> None:
    value = "deadbeef" * 8
    assert Redactor({"S": "deadbeef"}).text("sha256:" + value) == "sha256:" + value
    assert Redactor({"S": value}).text(value) == placeholder("S", value)


def test_short_values_are_reported_and_not_redacted() -> None:
    redact = Redactor({"PIN": "12345", "EMPTY": ""})
    assert redact.too_short == ("PIN",)
    assert redact.text("12345 apples") == "12345 apples"


@given(st.text(min_size=6, max_size=20), st.lists(st.text(max_size=20), max_size=4), st.text(max_size=5))
def test_no_value_keeps_a_secret(secret: str, texts: list[str], between: str) -> None:
    assume(secret not in _WORDS)
    redact = Redactor({"S": secret}, shapes=False)
    value = {"a": [*texts, f"{between}{secret}{between}"], f"{secret}x": secret}
    flat = str(to_json(value, redact))
    if secret not in placeholder("S", secret) and not any(secret in text for text in ("a", *texts, between)):
        assert all(secret not in one for one in _strings(to_json(value, redact)))
    assert str(to_json(value, redact)) == flat


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key, inner in value.items() for text in (key, *_strings(inner))]
    return [text for inner in value for text in _strings(inner)] if isinstance(value, list) else []


@pytest.mark.req("E-10a")
def test_lines_of_a_multi_line_secret_are_redacted() -> None:
    body = "MIIEvgIBADANBgkqhkiG9w0BAQEFAASC4bKgwggSkAgEAAoIBAQC7"
    lines = ["-----BEGIN PRIVATE KEY-----", body, '"auth": "https://www.example.com/oauth2/v1/certs/all",', "-----END"]
    redact = Redactor({"PEM": "\n".join(lines)})
    shown = redact.data("".join(f"+    {line}\n" for line in lines).encode()).decode()
    assert body not in shown
    assert shown.count("[redacted:PEM:") == 1
    assert lines[0] in shown
    assert lines[2] in shown  # words that others write too are no secret


@pytest.mark.req("E-10a")
def test_redaction_can_be_limited_to_known_values() -> None:
    redact = Redactor({"KEY": "hunter2hunter2"})
    shaped = b"ghp_" + b"a" * 36
    assert redact.named(b"hunter2hunter2 " + shaped).endswith(b"] " + shaped)
    assert redact.data(shaped) != shaped
    assert Redactor({}).named(shaped) == shaped


def _of_repository(*values: str) -> Redactor:
    redact = Redactor({"NAMED": "some-named-value"})
    redact.add_repository_secrets(values)
    return redact


def test_repository_secret_is_numbered_and_shows_no_digest() -> None:
    redact = _of_repository("hunter2hunter2", "k2Vw-9xPq#R")
    assert redact.text("a k2Vw-9xPq#R b hunter2hunter2") == "a [redacted:repo-secret:2] b [redacted:repo-secret:1]"


@pytest.mark.parametrize(
    "text",
    [
        'x hT7"qLm2\\vXz9 y',
        json.dumps('x hT7"qLm2\\vXz9 y'),
        quote('hT7"qLm2\\vXz9', safe=""),
        base64.b64encode(b'hT7"qLm2\\vXz9').decode(),
        "+MIIEvgIBADANBgkqhkiG9w0BAQEF\n+AASC4bKgwggS=\n",
        "MIIEvgIBADANBgkqhkiG9w0BAQEF\\nAASC4bKgwggS=",
    ],
)
def test_repository_secrets_can_be_restored_in_every_form(text: str) -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvgIBADANBgkqhkiG9w0BAQEF\nAASC4bKgwggS=\n-----END PRIVATE KEY-----"
    redact = _of_repository('hT7"qLm2\\vXz9', key)
    shown = redact.data(text.encode())
    assert b"[redacted:repo-secret:" in shown
    assert b"hT7" not in shown
    assert b"MII" not in shown
    assert b"AASC4" not in shown
    assert redact.restore(shown) == text.encode()


def test_restored_secrets_are_escaped_in_json() -> None:
    redact = _of_repository('p"w\nd-17-x')
    shown = redact.text('p"w\nd-17-x')
    body = json.dumps({"text": shown}).encode()
    assert json.loads(redact.restore(body, in_json=True)) == {"text": 'p"w\nd-17-x'}


def test_only_repository_secrets_are_restored() -> None:
    redact = _of_repository("hunter2hunter2")
    shown = redact.data(b"some-named-value hunter2hunter2 [redacted:repo-secret:9]")
    restored = redact.restore(shown)
    assert b"some-named-value" not in restored
    assert restored.endswith(b" hunter2hunter2 [redacted:repo-secret:9]")


def test_longer_half_of_a_cut_repository_secret_is_redacted() -> None:
    redact = _of_repository("R8wQ2mZx7LkT4vB9nC3y")
    assert redact.text("end R8wQ2mZx7Lk") == "end [redacted:repo-secret:1:start]k"
    assert "nC3y" not in redact.text("LkT4vB9nC3y start")
    # Half of this password is an ordinary word.
    assert _of_repository("database-Pass#99!").text("database") == "database"


def test_copy_does_not_share_added_secrets() -> None:
    redact = Redactor({"NAMED": "some-named-value"})
    redact.copy().add_repository_secrets(["hunter2hunter2"])
    assert redact.text("hunter2hunter2") == "hunter2hunter2"
    assert redact.copy().text("some-named-value") == redact.text("some-named-value")
