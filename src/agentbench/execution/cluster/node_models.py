"""The models of a node: requests and budgets go to the driver, which has the keys and the accounts of the run."""

from __future__ import annotations

import base64
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import HarnessError, Interrupted
from agentbench.core.reasons import TerminationCode
from agentbench.execution.cluster.attempt_service import AGENT, JUDGE, PLACE
from agentbench.execution.cluster.channel_client import ChannelClient
from agentbench.execution.cluster.node_lab import LabSettings
from agentbench.execution.cluster.wire import (
    JsonDict,
    amount_json,
    question_json,
    read_event,
    read_fault,
    read_outage,
    request_json,
)
from agentbench.execution.models import Models, overrides
from agentbench.execution.plan import PlanRow
from agentbench.models.client.endpoint import Dialect
from agentbench.models.faults import BudgetReached
from agentbench.models.keys import Keys
from agentbench.models.ledger import MAX_WAIT_SEC, Account, Amount, Caps, Component, Hold
from agentbench.models.metered_model import EventSink, LogSink, MeteredModel, ModelIdentity
from agentbench.models.presets import ModelChoice
from agentbench.models.recording.recorded import Recording
from agentbench.models.sse import SseEvent
from agentbench.models.upstream import ModelRequest, ModelResponse
from agentbench.record.attempt_folder import AttemptFolder
from agentbench.tools.operator import Answer, Question
from agentbench.trace.blobs import BlobStore
from agentbench.trace.log import EventLog
from agentbench.trace.originals import KeptOriginal
from agentbench.trace.redaction import Redactor

_POLL_SEC = 0.5


@dataclass(frozen=True, slots=True)
class AttemptClient:
    """Sends the messages of one attempt to the driver."""

    channel: ChannelClient
    attempt_id: str

    def post(self, operation: str, value: JsonDict) -> JsonDict:
        return self.channel.post(self.path(operation), value)

    def path(self, operation: str) -> str:
        return f"/attempts/{self.attempt_id}/{operation}"


class DriverAccount(Account):
    """The account of one attempt, which the driver keeps, below those of its task and of the run."""

    def __init__(self, client: AttemptClient, name: str) -> None:
        super().__init__("attempt", Caps(), None, threading.Condition(), "")
        self._client = client
        self._name = name

    def admit(
        self, estimate: Amount, *, max_wait_sec: float = MAX_WAIT_SEC, cancelled: Callable[[], bool] = lambda: False
    ) -> Hold:
        deadline = time.monotonic() + max_wait_sec
        while (hold := self.admit_now(estimate)) is None:
            if time.monotonic() > deadline or cancelled():
                msg = "requests in flight use up a budget"
                raise BudgetReached(msg, code=TerminationCode.TOTAL_BUDGET, scope="run")
            time.sleep(_POLL_SEC)
        return hold

    def admit_now(self, estimate: Amount) -> Hold | None:
        answer = self._send("admit", amount_json(estimate))
        if answer.get("refused"):
            raise read_fault(answer["refused"])
        return _DriverHold(self, int(answer["hold"])) if "hold" in answer else None

    def charge(self, component: Component, amount: Amount) -> None:
        self._send("charge", {"component": component, **amount_json(amount)})

    def reserve(self, micro: int) -> None:
        self._send("reserve", {"micro": micro})

    def used_up(self) -> BudgetReached | None:
        return self._refused("used_up")

    def total_spent(self) -> BudgetReached | None:
        return self._refused("total_spent")

    def settle_hold(self, number: int, amount: Amount, component: Component) -> None:
        self._send("settle", {"hold": number, "component": component, **amount_json(amount)})

    def _refused(self, operation: str) -> BudgetReached | None:
        refused = self._send(operation, {})["refused"]
        fault = None if refused is None else read_fault(refused)
        return fault if isinstance(fault, BudgetReached) else None

    def _send(self, operation: str, value: JsonDict) -> JsonDict:
        return self._client.post("account", {"account": self._name, "operation": operation, **value})


class _DriverHold(Hold):
    def __init__(self, account: DriverAccount, number: int) -> None:
        super().__init__(account, Amount())
        self._driver = account
        self._number = number

    def settle(self, amount: Amount, component: Component = "lm") -> None:
        with self._lock:
            settled, self._estimate = self._estimate is None, None
        if not settled:
            self._driver.settle_hold(self._number, amount, component)


class DriverUpstream:
    """Sends model requests to the driver."""

    dialects = frozenset(Dialect)
    _numbers = itertools.count(1)

    def __init__(self, client: AttemptClient, name: str) -> None:
        self._client = client
        self._name = name

    def send(self, request: ModelRequest) -> ModelResponse:
        number = f"{self._name}-{next(self._numbers)}"
        message = {**request_json(request), "model": self._name, "request": number}
        stack = ExitStack()
        request.cancel.on_cancel(lambda: self._cancel(number))
        try:
            lines = stack.enter_context(self._client.channel.lines(self._client.path("model"), message))
            for line in lines:
                if "waits" in line:
                    request.on_outage(*read_outage(line))
                elif "streams" in line:
                    return ModelResponse(events=_events(lines, stack), close=stack.close)
                else:
                    _raise_problem(line)
                    stack.close()
                    return ModelResponse(line["body"], raw=base64.b64decode(line["raw"]))
        except BaseException:
            stack.close()
            raise
        stack.close()
        raise HarnessError("the driver sent no response to a model request")

    def _cancel(self, number: str) -> None:
        # On a thread of its own: the thread that cancels may be one that must not wait.
        threading.Thread(target=self._post_cancel, args=(number,), daemon=True).start()

    def _post_cancel(self, number: str) -> None:
        try:
            self._client.post("cancel", {"request": number})
        except HarnessError:
            return


def _events(lines: Iterator[JsonDict], stack: ExitStack) -> Iterator[SseEvent]:
    with stack:
        for line in lines:
            if "end" in line:
                return
            _raise_problem(line)
            yield read_event(line)


def _raise_problem(line: JsonDict) -> None:
    if "fault" in line:
        raise read_fault(line["fault"])
    if "error" in line:
        raise HarnessError(f"the driver failed to send a model request: {line['error']}")


class NodeModels(Models):
    """Models of the attempts on one node. There is no key on a node."""

    def __init__(self, settings: LabSettings, channel: ChannelClient) -> None:
        super().__init__(
            keys=Keys({}), prices=settings.prices, lenient=settings.lenient, patience_sec=settings.patience_sec
        )
        self._channel = channel
        self._capped = settings.capped
        self._attempts: dict[tuple[str, str, int], tuple[AttemptClient, Mapping[str, ModelIdentity]]] = {}

    def open_attempt(self, row: PlanRow, client: AttemptClient, identities: Mapping[str, ModelIdentity]) -> None:
        """Register the attempt that is made of a row. A node makes one attempt of a row at a time."""
        self._attempts[row.key] = client, identities

    def close_attempt(self, row: PlanRow) -> None:
        self._attempts.pop(row.key, None)

    def identity(self, row: PlanRow) -> ModelIdentity | None:
        return self._attempts[row.key][1].get(AGENT)

    def account(self, row: PlanRow) -> Account:
        return DriverAccount(self._attempts[row.key][0], AGENT) if self._capped else super().account(row)

    def judge_account(self, row: PlanRow) -> Account:
        return DriverAccount(self._attempts[row.key][0], JUDGE) if self._capped else super().judge_account(row)

    def metered_model(self, row: PlanRow, account: Account, log: EventLog, blobs: BlobStore) -> MeteredModel | None:
        client = self._attempts[row.key][0]
        identity = self.identity(row)
        if identity is None:
            return None
        pinned = ModelIdentity(identity.provider, identity.name, overrides(row.configuration))
        upstream = DriverUpstream(client, AGENT)
        return MeteredModel(upstream, pinned, account, self.prices, LogSink(log, blobs), log.redact)

    def judge_model(
        self,
        choice: ModelChoice,
        row: PlanRow,
        sink: EventSink,
        redact: Redactor | None,
        recording: Callable[[ModelChoice, PlanRow], Recording | None],
    ) -> MeteredModel:
        client, identities = self._attempts[row.key]
        upstream = DriverUpstream(client, JUDGE)
        return MeteredModel(upstream, identities[JUDGE], self.judge_account(row), self.prices, sink, redact)


@dataclass(frozen=True, slots=True)
class DriverOperator:
    """Asks the operator through the driver."""

    client: AttemptClient

    def ask(self, question: Question) -> Answer | None:
        answer = self.client.post("question", question_json(question))
        if answer.get("interrupted"):
            raise Interrupted("interrupted while waiting for the operator")
        return None if answer["answer"] is None else Answer(*answer["answer"])


@dataclass(frozen=True, slots=True)
class DriverOriginals:
    """Sends originals to the driver, which encrypts and keeps them."""

    client: AttemptClient
    withhold: bool

    def keep(self, place: str, original: bytes) -> None:
        # A place can name any file, and a header must be ASCII.
        headers = {PLACE: base64.b64encode(place.encode()).decode()}
        self.client.channel.post_bytes(self.client.path("original"), original, headers=headers)

    def kept(self) -> Mapping[str, KeptOriginal]:
        kept = self.client.post("originals", {})["kept"]
        return {place: KeptOriginal(str(sha256), int(size)) for place, (sha256, size) in kept.items()}

    def sync(self) -> None:
        """The driver syncs them when it is asked what was kept."""


def open_operator(channel: ChannelClient) -> Callable[[AttemptFolder], DriverOperator]:
    return lambda folder: DriverOperator(AttemptClient(channel, folder.attempt_id))
