"""The driver's side of one attempt on a node: receives its evidence and does for it what only the driver may do.

Model requests go to the service with the driver's key, budgets are those of the whole run, questions go to the operator, and
originals go to the restricted store. The node gets results, never keys.
"""

from __future__ import annotations

import base64
import itertools
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import HarnessError, Interrupted, ModelFault, RecordError
from agentbench.execution.attempt.judge import judge_recording
from agentbench.execution.cluster.channel_server import BadMessage, Exchange
from agentbench.execution.cluster.evidence_transfer import EvidenceReceiver
from agentbench.execution.cluster.wire import (
    JsonDict,
    event_json,
    fault_json,
    outage_json,
    read_amount,
    read_question,
    read_request,
)
from agentbench.execution.lab import Lab
from agentbench.execution.models import agent_recording
from agentbench.execution.operator import FileOperator
from agentbench.execution.plan import PlanRow
from agentbench.models.faults import BudgetReached
from agentbench.models.ledger import COMPONENTS, Account, Amount, Component, Hold
from agentbench.models.presets import ModelChoice
from agentbench.models.sse import SseEvent
from agentbench.models.upstream import ModelRequest, ModelResponse, Upstream
from agentbench.record.attempt_folder import AttemptFolder
from agentbench.trace.redaction import Redactor

AGENT, JUDGE = "agent", "judge"
PLACE = "X-Place"


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of an attempt on its node. `failure`: its folder could not be written there."""

    failure: str = ""


class AttemptService:
    """Handles the messages about one attempt, on the threads of the channel."""

    def __init__(self, row: PlanRow, folder: AttemptFolder, lab: Lab, node: str) -> None:
        self.node = node
        self.pause: Callable[[], AbstractContextManager[None]] = nullcontext
        """Entered while the attempt waits for a person: its place on the node is free meanwhile."""
        self._row = row
        self._folder = folder
        self._lab = lab
        self._receiver = EvidenceReceiver(folder.path)
        self._receiving = threading.Lock()
        self._transfer: Exchange | None = None
        self._closed = threading.Event()
        self._upstreams = _Upstreams(row, folder, lab)
        self._accounts: dict[str, Account] = {}
        self._holds: dict[int, tuple[Hold, Amount]] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._requests: dict[str, ModelRequest] = {}
        self._ended: queue.SimpleQueue[Finished | HarnessError] = queue.SimpleQueue()
        self._operations: dict[str, Callable[[Exchange], None]] = {
            "evidence": self._evidence,
            "finished": self._finished,
            "account": self._account,
            "model": self._model,
            "cancel": self._cancel,
            "question": self._question,
            "original": self._original,
            "originals": self._originals,
        }

    def handle(self, operation: str, exchange: Exchange) -> None:
        """
        Raises:
            BadMessage, KeyError, ValueError, TypeError: it is not an operation, or has other arguments.
            HarnessError: it cannot be carried out.
        """
        try:
            method = self._operations[operation]
        except KeyError:
            raise BadMessage(f"unknown operation {operation}") from None
        method(exchange)

    def wait(self, seconds: float) -> Finished | None:
        """Wait for the end of the attempt; None if it has not ended yet.

        Raises:
            RecordError: its evidence cannot be written.
            HarnessError: the node is lost.
        """
        try:
            ended = self._ended.get(timeout=seconds)
        except queue.Empty:
            return None
        if isinstance(ended, HarnessError):
            raise ended
        return ended

    def lose(self, error: HarnessError) -> None:
        """End the wait with an error: the node is lost."""
        self._ended.put(error)

    def close(self) -> None:
        """Settle what the attempt holds. No evidence is written afterwards."""
        self._closed.set()
        with self._lock:
            holds, self._holds = list(self._holds.values()), {}
            requests = list(self._requests.values())
            accounts = list(self._accounts.values())
        for request in requests:
            request.cancel.set()
        for hold, estimate in holds:
            # The node did not say what the request cost. The service may have answered it.
            hold.settle(estimate)
        for account in accounts:
            account.reserve(0)
        if self._transfer is not None:
            self._transfer.abort()  # a node that hangs would never send the rest
        with self._receiving:
            self._receiver.close()

    # --- evidence -----------------------------------------------------------------------------------------------------------

    def _evidence(self, exchange: Exchange) -> None:
        try:
            with self._receiving:
                if self._closed.is_set():
                    raise BadMessage("the attempt has ended")
                self._transfer = exchange
                try:
                    failure = self._receiver.receive(exchange)
                finally:
                    self._transfer = None
        except RecordError as error:
            self.lose(error)
            raise
        exchange.reply({})
        if failure is not None:
            self._ended.put(Finished(failure))

    def _finished(self, exchange: Exchange) -> None:
        """End the wait for an attempt whose evidence the node could not send."""
        value = exchange.json()
        exchange.reply({})
        self._ended.put(Finished(str(value.get("failure") or "")))

    # --- budgets ----------------------------------------------------------------------------------------------------------------

    def _account(self, exchange: Exchange) -> None:
        value = exchange.json()
        account = self._open_account(str(value["account"]))
        exchange.reply(self._book(account, value))

    def _open_account(self, name: str) -> Account:
        with self._lock:
            if name not in self._accounts:
                models = self._lab.models
                judge = name == JUDGE
                account = models.judge_account(self._row) if judge else models.account(self._row)
                self._accounts[name] = account
            return self._accounts[name]

    def _book(self, account: Account, value: JsonDict) -> JsonDict:
        match value["operation"]:
            case "admit":
                return self._admit(account, value)
            case "settle":
                with self._lock:
                    held = self._holds.pop(int(value["hold"]), None)
                if held is not None:
                    held[0].settle(read_amount(value), _component(value))
                return {}
            case "charge":
                account.charge(_component(value), read_amount(value))
                return {}
            case "reserve":
                account.reserve(read_amount({"tokens": 0, **value}).micro)
                return {}
            case "used_up":
                return _refusal(account.used_up())
            case "total_spent":
                return _refusal(account.total_spent())
            case unknown:
                raise BadMessage(f"unknown operation of an account: {unknown}")

    def _admit(self, account: Account, value: JsonDict) -> JsonDict:
        try:
            estimate = read_amount(value)
            hold = account.admit_now(estimate)
        except BudgetReached as refused:
            return _refusal(refused)
        if hold is None:
            return {"wait": True}
        number = next(self._numbers)
        with self._lock:
            self._holds[number] = hold, estimate
        if self._closed.is_set():
            hold.release()
        return {"hold": number}

    # --- models -------------------------------------------------------------------------------------------------------------

    def _model(self, exchange: Exchange) -> None:
        value = exchange.json()
        name, number = str(value["model"]), str(value["request"])
        request = read_request(value)
        with self._lock:
            self._requests[number] = request
        try:
            exchange.reply_lines(self._answers(name, request))
        finally:
            with self._lock:
                self._requests.pop(number, None)

    def _cancel(self, exchange: Exchange) -> None:
        number = str(exchange.json()["request"])
        with self._lock:
            request = self._requests.get(number)
        if request is not None:
            request.cancel.set()
        exchange.reply({})

    def _answers(self, name: str, request: ModelRequest) -> Iterator[JsonDict]:
        """Send a request and yield its response. Waits for a service are reported as they begin."""
        lines: queue.SimpleQueue[JsonDict | None] = queue.SimpleQueue()

        def send() -> None:
            try:
                with self._upstreams.send(name, request, lambda *wait: lines.put(outage_json(*wait))) as response:
                    for line in self._upstreams.lines(response):
                        lines.put(line)
            except ModelFault as fault:
                lines.put({"fault": fault_json(fault)})
            except Exception as error:  # noqa: BLE001 - the node must get an end of the response
                lines.put({"error": f"{type(error).__name__}: {error}"})
            finally:
                lines.put(None)

        threading.Thread(target=send, name="model-request", daemon=True).start()
        try:
            while (line := lines.get()) is not None:
                yield line
        finally:
            # The node disconnected and does not read the rest.
            request.cancel.set()

    # --- people and originals ---------------------------------------------------------------------------------------------------

    def _question(self, exchange: Exchange) -> None:
        question = read_question(exchange.json())
        folder, row = self._folder, self._row
        operator = FileOperator(
            run=folder.run,
            attempt_id=folder.attempt_id,
            task_id=row.task.id,
            variant=row.configuration.variant,
            repeat=row.repeat,
            yield_worker=self.pause,
            redact=self._upstreams.redact,
            cancelled=lambda: self._lab.cancelled.is_set() or self._closed.is_set(),
            notify=self._lab.on_question,
        )
        try:
            answer = operator.ask(question)
        except Interrupted:
            exchange.reply({"interrupted": True})
            return
        if answer is None:
            exchange.reply({"answer": None})
        else:
            exchange.reply({"answer": [answer.decision, answer.operator, answer.justification]})

    def _original(self, exchange: Exchange) -> None:
        if self._folder.originals is None:
            raise BadMessage("this run keeps no originals")
        place = base64.b64decode(exchange.header(PLACE)).decode()
        self._folder.originals.keep(place, exchange.body())
        exchange.reply({})

    def _originals(self, exchange: Exchange) -> None:
        exchange.body()
        if self._folder.originals is None:
            raise BadMessage("this run keeps no originals")
        self._folder.originals.sync()
        kept = self._folder.originals.kept()
        exchange.reply({"kept": {place: [original.sha256, original.bytes] for place, original in kept.items()}})


class _Upstreams:
    """Answers the model requests of one attempt, and redacts the values of keys from every response."""

    def __init__(self, row: PlanRow, folder: AttemptFolder, lab: Lab) -> None:
        self._row = row
        self._lab = lab
        self._lock = threading.Lock()
        self._open: dict[str, Upstream] = {}
        self._full_text = folder.text == "full"
        self._keys = folder.redact
        self._redact: Redactor | None = None

    @property
    def redact(self) -> Redactor | None:
        """Redacts keys, declared secrets and, unless the run keeps the full text, secrets of the base repository."""
        if self._redact is None and self._keys is not None:
            redact = self._keys.copy()
            if not self._full_text:
                redact.add_repository_secrets(self._lab.repository_secrets(self._row.task).values)
            self._redact = redact
        return self._redact

    def send(self, name: str, request: ModelRequest, on_outage: Callable[[float, float], None]) -> ModelResponse:
        with self._lock:
            if name not in self._open:
                self._open[name] = self._upstream(name)
            upstream = self._open[name]
        sent = ModelRequest(request.dialect, request.body, request.headers, request.cancel, request.raw, on_outage)
        return upstream.send(sent)

    def lines(self, response: ModelResponse) -> Iterator[JsonDict]:
        if response.streams:
            yield {"streams": True}
            for event in response.events:
                yield event_json(SseEvent(self._clean_text(event.data), event.event))
            yield {"end": True}
        else:
            raw = self._clean(response.raw)
            body = response.body if raw == response.raw else self._clean_body(response)
            yield {"body": body, "raw": base64.b64encode(raw).decode()}

    def _upstream(self, name: str) -> Upstream:
        models = self._lab.models
        if name == JUDGE:
            if self._lab.judge is None:
                raise HarnessError("this run has no judge")
            choice: ModelChoice | None = self._lab.judge.choice(self._row, models)
            recording = None if choice is None else judge_recording(choice, self._row)
        else:
            choice = models.agent_choice(self._row)
            recording = None if choice is None else agent_recording(choice, self._row)
        if choice is None:
            raise HarnessError("this attempt has no model")
        return models.factory.upstream(choice, recording, lenient=models.lenient, redact=self.redact)

    def _clean(self, data: bytes) -> bytes:
        return data if self._keys is None else self._keys.named(data)

    def _clean_text(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        clean = self._clean(data)
        return text if clean == data else clean.decode("utf-8", "surrogatepass")

    def _clean_body(self, response: ModelResponse) -> JsonDict:
        from agentbench.models.json_values import dump, read_object  # noqa: PLC0415 - a response with a key is rare

        return dict(read_object(self._clean_text(dump(response.body))))


def _component(value: JsonDict) -> Component:
    component = value["component"]
    if component not in COMPONENTS:
        raise BadMessage(f"unknown component {component}")
    return component  # type: ignore[no-any-return]


def _refusal(refused: BudgetReached | None) -> JsonDict:
    return {"refused": None if refused is None else fault_json(refused)}
