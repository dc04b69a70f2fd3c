"""Webhooks against a real HTTP server on loopback that fails, is slow or refuses."""

from __future__ import annotations

import hashlib
import hmac
import json
import runpy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agentbench import notify
from agentbench.cli.notify import Announcer
from agentbench.core.errors import InputError
from agentbench.notify import Notifier, Webhook
from tests.execution.conftest import Ab, ab, shared_state
from tests.execution.tasks import ASKS, make_suite

__all__ = ["ab", "shared_state"]

ROOT = Path(__file__).parents[1]
SECRET = "a secret of thirty-two characters"


@dataclass
class Receiver:
    """The requests that arrived, and how the next ones are answered."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    """Status of the next requests; afterwards 204."""
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    arrived: threading.Condition = field(default_factory=threading.Condition)
    hold: threading.Event | None = None

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        with self.arrived:
            self.requests.append(({name.lower(): value for name, value in handler.headers.items()}, body))
            self.arrived.notify_all()
        if self.hold is not None:
            self.hold.wait(60)
        handler.send_response(self.statuses.pop(0) if self.statuses else 204)
        handler.send_header("Location", "/elsewhere")
        handler.end_headers()

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.requests]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.handle(self)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield found
    if found.hold is not None:
        found.hold.set()
    server.shutdown()
    thread.join()
    server.server_close()


@contextmanager
def notifier(receiver: Receiver, warnings: list[str]) -> Iterator[Notifier]:
    sender = Notifier(Webhook.of(receiver.url, SECRET), warnings.append)
    yield sender
    sender.close()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "WAITS_SEC", (0.01, 0.01))


def test_delivery_is_signed_json(receiver: Receiver) -> None:
    warnings: list[str] = []
    with notifier(receiver, warnings) as sender:
        sender.send("run_finished", {"exit_code": 0})
    ((headers, body),) = receiver.requests
    parts = dict(part.split("=") for part in headers["x-agentbench-signature"].split(","))
    expected = hmac.new(SECRET.encode(), f"{parts['t']}.".encode() + body, hashlib.sha256).hexdigest()
    assert parts["v1"] == expected
    genuine = runpy.run_path(str(ROOT / "docs" / "examples" / "verify_webhook.py"))["genuine"]
    assert genuine(body, headers["x-agentbench-signature"], SECRET.encode())
    assert not genuine(body + b" ", headers["x-agentbench-signature"], SECRET.encode())
    assert not genuine(body, "t=1,v1=" + parts["v1"], SECRET.encode())
    event = json.loads(body)
    assert event["event"] == headers["x-agentbench-event"] == "run_finished"
    assert event["delivery_id"] == headers["x-agentbench-delivery"]
    assert warnings == []


def test_failed_delivery_is_repeated_with_the_same_id(receiver: Receiver) -> None:
    receiver.statuses = [503, 429]
    warnings: list[str] = []
    with notifier(receiver, warnings) as sender:
        sender.send("run_finished", {})
    assert len({event["delivery_id"] for event in receiver.events}) == 1
    assert len(receiver.requests) == 3
    assert warnings == []


def test_tries_are_bounded_and_the_failure_is_a_warning(receiver: Receiver) -> None:
    receiver.statuses = [500] * 10
    warnings: list[str] = []
    with notifier(receiver, warnings) as sender:
        sender.send("run_finished", {})
    assert len(receiver.requests) == 3
    assert warnings == [f"notification run_finished not delivered to {receiver.url.split('/')[2]}: HTTP status 500"]


@pytest.mark.parametrize("status", [403, 302])
def test_refusal_and_redirect_are_not_repeated(receiver: Receiver, status: int) -> None:
    receiver.statuses = [status]
    warnings: list[str] = []
    with notifier(receiver, warnings) as sender:
        sender.send("run_finished", {})
    assert len(receiver.requests) == 1
    assert f"HTTP status {status}" in warnings[0]


def test_slow_receiver_does_not_delay_the_sender(receiver: Receiver) -> None:
    receiver.hold = threading.Event()
    warnings: list[str] = []
    sender = Notifier(Webhook.of(receiver.url, SECRET), warnings.append)
    for _ in range(3):
        sender.send("run_finished", {})
    with receiver.arrived:
        assert receiver.arrived.wait_for(lambda: receiver.requests, 60)
    sender.close(timeout=0.05)
    assert "not delivered within 0.05 s" in warnings[0]


def test_unreachable_receiver_is_a_warning() -> None:
    warnings: list[str] = []
    sender = Notifier(Webhook.of("http://127.0.0.1:9/hook", SECRET), warnings.append)
    sender.send("run_finished", {})
    sender.close()
    assert "Connection refused" in warnings[0]


def test_large_payload_is_replaced_by_a_mark(receiver: Receiver) -> None:
    with notifier(receiver, []) as sender:
        sender.send("operator_question", {"call": "x" * 100_000})
    assert receiver.events[0]["truncated"] is True


@pytest.mark.parametrize(
    "url, secret, message",
    [
        ("ftp://host/x", SECRET, "expected a URL"),
        ("file:///etc/passwd", SECRET, "expected a URL"),
        ("http://[host", SECRET, "expected a URL"),
        ("https://host:99999/", SECRET, "expected a URL"),
        ("https://host/a b?token=x", SECRET, "expected a URL"),
        ("https://user:password@host/x", SECRET, "must not contain a password"),
        ("https://host/x", "", "is missing"),
        ("https://host/x", "short", "shorter than 16"),
    ],
)
def test_bad_webhook_is_refused(url: str, secret: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Webhook.of(url, secret)


# --- ab run --notify ----------------------------------------------------------------------------------------------------


@pytest.mark.end_to_end
def test_run_tells_its_end_and_its_gate(ab: Ab, receiver: Receiver, tmp_path: Path) -> None:
    make_suite(tmp_path / "tasks", "one")
    receiver.statuses = [500]
    run = ["run", "--suite", "tiny", "--agent", "noop", "--notify", receiver.url, "--fail-on", "pass_rate<0.5"]
    done = ab(*run, env={"AB_NOTIFY_SECRET": SECRET})
    assert done.code == 1
    events = {event["event"]: event for event in receiver.events}
    assert "pass_rate" in events["gate_failed"]["why"]
    assert events["run_finished"]["exit_code"] == 1
    (counts,) = events["run_finished"]["runs"]
    assert (counts["attempts"], counts["passed"], counts["variant"]) == (1, 0, "noop")
    assert SECRET not in "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*.json*"))


@pytest.mark.end_to_end
def test_operator_question_is_sent_while_the_attempt_waits(ab: Ab, receiver: Receiver, tmp_path: Path) -> None:
    make_suite(tmp_path / "tasks", "one")
    (tmp_path / "script.yaml").write_text(ASKS)
    options = ["--operator", "--notify", receiver.url]
    running = Ab(tmp_path, {**ab.env, "AB_NOTIFY_SECRET": SECRET}).start(
        "run", "--suite", "tiny", "--agent", "scripted", "--script", "script.yaml", *options
    )
    with receiver.arrived:
        assert receiver.arrived.wait_for(lambda: receiver.requests, 600), running.communicate()
    question = receiver.events[0]
    assert question["event"] == "operator_question"
    assert "sudo make-it-42" in question["call"]
    answer = ["--question", question["question_id"], "--stop", "--reason", "no"]
    assert ab("operator", "decide", f"artifacts/runs/{question['run']}", *answer).code == 0
    running.communicate(timeout=600)
    assert [event["event"] for event in receiver.events] == ["operator_question", "run_finished"]


def test_stage_of_a_pilot_is_announced_with_its_decision(receiver: Receiver, tmp_path: Path) -> None:
    warnings: list[str] = []
    with notifier(receiver, warnings) as sender:
        announcer = Announcer(sender)
        announcer.stage_ended(tmp_path / "study", "feasibility", "Stage feasibility is complete", held=True)
        announcer.stage_ended(tmp_path / "study", "limited", "STOPPED in stage limited", held=False)
    assert [(event["event"], event["pilot"], event["decision"]) for event in receiver.events] == [
        ("run_finished", "study", "Stage feasibility is complete"),
        ("gate_failed", "study", "STOPPED in stage limited"),
    ]
    assert warnings == []


def test_unreadable_run_does_not_reach_the_command(receiver: Receiver, tmp_path: Path) -> None:
    with notifier(receiver, []) as sender:
        Announcer(sender).interrupted(tmp_path / "no run")
    assert receiver.requests == []


@pytest.mark.end_to_end
def test_refusing_receiver_does_not_change_the_outcome(ab: Ab, receiver: Receiver, tmp_path: Path) -> None:
    make_suite(tmp_path / "tasks", "one")
    receiver.statuses = [403]
    done = ab(
        "run", "--suite", "tiny", "--agent", "reference", "--notify", receiver.url, env={"AB_NOTIFY_SECRET": SECRET}
    )
    assert done.code == 0
    assert done.stdout.startswith("PASS")
    assert "warning: notification run_finished not delivered" in done.stderr


@pytest.mark.end_to_end
def test_notify_without_a_secret_is_refused_before_the_run(ab: Ab, tmp_path: Path) -> None:
    make_suite(tmp_path / "tasks", "one")
    done = ab("run", "--suite", "tiny", "--agent", "noop", "--notify", "https://hooks.example/x")
    assert done.code == 2
    assert "AB_NOTIFY_SECRET" in done.stderr
    assert not (tmp_path / "artifacts").exists()
