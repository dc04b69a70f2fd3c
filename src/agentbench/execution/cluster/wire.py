"""The JSON of messages on the channel: model requests, responses and faults, amounts, questions.

Nothing that comes from a node is unpickled.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from agentbench.core.errors import ModelFault
from agentbench.core.reasons import TerminationCode
from agentbench.models import faults
from agentbench.models.client.endpoint import Dialect
from agentbench.models.faults import BudgetReached, ReplayDiverged, ServiceFault
from agentbench.models.ledger import Amount
from agentbench.models.sse import SseEvent
from agentbench.models.upstream import ModelRequest
from agentbench.tools.operator import Question

JsonDict = dict[str, Any]


def encode(value: Mapping[str, Any]) -> bytes:
    # Escapes everything outside of ASCII, so that text with lone surrogates survives.
    return json.dumps(value).encode()


def decode(data: bytes) -> JsonDict:
    """Raises ValueError or TypeError if the data is not a JSON object."""
    try:
        value = json.loads(data)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
    if not isinstance(value, dict):
        raise TypeError("expected a JSON object")
    return value


def request_json(request: ModelRequest) -> JsonDict:
    return {
        "dialect": str(request.dialect),
        "body": request.body,
        "headers": dict(request.headers),
        "raw": base64.b64encode(request.raw).decode(),
    }


def read_request(value: JsonDict) -> ModelRequest:
    """Raises ValueError, KeyError or TypeError if the value is not a request."""
    return ModelRequest(
        dialect=Dialect(value["dialect"]),
        body=dict(value["body"]),
        headers={str(name): str(text) for name, text in value["headers"].items()},
        raw=base64.b64decode(value["raw"]),
    )


def event_json(event: SseEvent) -> JsonDict:
    return {"event": [event.data, event.event]}


def read_event(value: JsonDict) -> SseEvent:
    data, name = value["event"]
    return SseEvent(str(data), str(name))


def question_json(question: Question) -> JsonDict:
    return asdict(question)


def read_question(value: JsonDict) -> Question:
    """Raises ValueError, KeyError or TypeError if the value is not a question."""
    return Question(
        rule=str(value["rule"]),
        detail=str(value["detail"]),
        alert=int(value["alert"]),
        deadline_sec=int(value["deadline_sec"]),
        call=str(value["call"]),
    )


def outage_json(since: float, until: float) -> JsonDict:
    """Describe a wait by its distance from now: clocks of two machines differ."""
    now = time.monotonic()
    return {"waits": [now - since, until - now]}


def read_outage(value: JsonDict) -> tuple[float, float]:
    now = time.monotonic()
    ago, ahead = value["waits"]
    return now - float(ago), now + float(ahead)


def amount_json(amount: Amount) -> JsonDict:
    return {"micro": amount.micro, "tokens": amount.tokens}


def read_amount(value: JsonDict) -> Amount:
    """Raises ValueError, KeyError or TypeError if the value is not an amount. Nothing is ever paid back."""
    amount = Amount(int(value["micro"]), int(value["tokens"]))
    if amount.micro < 0 or amount.tokens < 0:
        raise ValueError("an amount must not be negative")
    return amount


def fault_json(fault: ModelFault) -> JsonDict:
    value: JsonDict = {"type": type(fault).__name__, "message": fault.message, "remedy": fault.remedy}
    if isinstance(fault, ServiceFault):
        value |= {"status": fault.status, "retry_after": fault.retry_after, "outage": fault.outage}
    elif isinstance(fault, BudgetReached):
        value |= {"code": str(fault.code), "scope": fault.scope}
    elif isinstance(fault, ReplayDiverged):
        value |= {"diff": fault.diff}
    return value


def read_fault(value: JsonDict) -> ModelFault:
    """Raises ValueError or KeyError if the value is not a fault."""
    kind: object = getattr(faults, str(value["type"]), None)
    message, remedy = str(value["message"]), str(value.get("remedy") or "")
    if kind is BudgetReached:
        return BudgetReached(message, code=TerminationCode(value["code"]), scope=str(value["scope"]))
    if kind is ReplayDiverged:
        return ReplayDiverged(message, diff=str(value["diff"]))
    if isinstance(kind, type) and issubclass(kind, ServiceFault):
        status, retry_after = value.get("status"), value.get("retry_after")
        fault = kind(message, status=status, retry_after=retry_after, remedy=remedy)
        fault.outage = bool(value.get("outage"))
        return fault
    if isinstance(kind, type) and issubclass(kind, ModelFault):
        return kind(message, remedy=remedy)
    return ModelFault(message, remedy=remedy)
