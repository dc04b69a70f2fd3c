"""Errors in the form of each dialect, so that the error handling of clients works."""

from __future__ import annotations

import json

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ModelFault
from agentbench.models import faults
from agentbench.models.client.endpoint import Dialect
from agentbench.models.json_values import JsonObject
from agentbench.models.sse import SseEvent, event_of

_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


@dataclass(frozen=True, slots=True)
class ApiError:
    """An error response."""

    status: int
    code: str
    message: str
    retry_after: float | None = None

    def body(self, dialect: Dialect) -> JsonObject:
        if dialect is Dialect.MESSAGES:
            kind = _ANTHROPIC_TYPES.get(self.status, "api_error" if self.status >= 500 else "invalid_request_error")
            return {"type": "error", "error": {"type": kind, "message": self.message}}
        kind = "insufficient_quota" if self.code == "insufficient_quota" else _openai_type(self.status)
        return {"error": {"message": self.message, "type": kind, "param": None, "code": self.code}}

    def late(self, dialect: Dialect) -> bytes:
        """Return the error as the body of a response whose status line already said 200."""
        body = self.body(dialect)
        if dialect is Dialect.RESPONSES:
            # This API has a form for it: a response with the status "failed".
            fault: JsonObject = {"code": self.code, "message": self.message}
            body = {"id": "resp_failed", "object": "response", "created_at": 0, "status": "failed", "error": fault}
            body |= {"output": [], "incomplete_details": None, "usage": None}
        return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")

    def event(self, dialect: Dialect) -> SseEvent:
        """Return the error as an event of a stream."""
        if dialect is Dialect.RESPONSES:
            value: JsonObject = {"type": "error", "code": self.code, "message": self.message, "param": None}
            value["sequence_number"] = 0
            return event_of(value, "error")
        return event_of(self.body(dialect), "error" if dialect is Dialect.MESSAGES else "")


def _openai_type(status: int) -> str:
    if status == 429:
        return "rate_limit_error"
    return "server_error" if status >= 500 else "invalid_request_error"


def api_error(fault: ModelFault, dialect: Dialect) -> ApiError:  # noqa: PLR0911 - one line per kind of fault
    """Return the error response for a fault. Covers every kind of fault."""
    message = fault.message
    match fault:
        case faults.BudgetReached():
            # Clients stop at the way their service reports a spent quota.
            return ApiError(402 if dialect is Dialect.MESSAGES else 429, "insufficient_quota", message)
        case faults.ContextOverflow():
            # Clients look for these words, and then shorten the conversation.
            text = f"prompt is too long: {message}" if dialect is Dialect.MESSAGES else message
            return ApiError(400, "context_length_exceeded", text)
        case faults.Unauthorised():
            return ApiError(fault.status or 401, "invalid_api_key", message)
        case faults.RateLimited():
            return ApiError(429, "rate_limit_exceeded", message, fault.retry_after)
        case faults.TimedOut():
            return ApiError(504, "timeout", message)
        case faults.ServerError():
            return ApiError(fault.status if fault.status and fault.status >= 500 else 502, "server_error", message)
        case faults.Rejected():
            known = fault.status is None or 400 <= fault.status < 500
            return ApiError(fault.status or 400 if known else 502, "invalid_request_error", message)
        case faults.ServiceFault():
            return ApiError(502, fault.label, message)
        case faults.ReplayFault():
            return ApiError(400, "replay", message)
        case _:
            return ApiError(502, "model_error", message)
