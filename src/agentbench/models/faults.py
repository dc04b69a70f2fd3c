"""Errors of models. All are a `ModelFault`, which, uncaught, ends an attempt as LLM_ERROR.

ModelFault
├── ServiceFault         the service gave no usable response
│   ├── Unreachable        no connection, or it broke
│   ├── TimedOut           no response within the deadline
│   ├── RateLimited        429 until the deadline or the last retry
│   ├── ServerError        5xx until the deadline or the last retry
│   ├── Unauthorised       401, 402, 403: the key is wrong, or lacks permission or credit
│   ├── Rejected           another 4xx: the service does not accept the request
│   │   └── ContextOverflow  the conversation exceeds the model's context window
│   └── BadResponse        the response cannot be read
│       ├── NotJson          not JSON, not UTF-8, or another content type
│       ├── Truncated        the body or the stream ended too early
│       ├── TooLarge         the response exceeds the size limit
│       └── EmptyResponse    no choice, or a choice without content
├── Refused              the model declined to answer
├── MalformedArguments   the arguments of a tool call are not a JSON object
├── BudgetReached        a budget is spent; ends an attempt under its own code
└── ReplayFault          a recording or a script has no response
    ├── ReplayDiverged     the request differs from the recorded one
    └── ReplayExhausted    more requests than were recorded
"""

from __future__ import annotations

from typing import ClassVar

from agentbench.core.errors import ModelFault
from agentbench.core.reasons import TerminationCode


class ServiceFault(ModelFault):
    """The service gave no usable response. `status` is the HTTP status, or None without a response."""

    label: ClassVar[str] = "service_error"
    retryable: ClassVar[bool] = False
    means_outage: ClassVar[bool] = False
    """The service itself may be unavailable, or refuse this account; the request need not be at fault."""

    def __init__(
        self, message: str, *, status: int | None = None, retry_after: float | None = None, remedy: str = ""
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.status = status
        self.retry_after = retry_after
        self.outage = False
        """The service was unavailable for as long as requests wait for it: a harness error, not the agent's failure."""


class Unreachable(ServiceFault):
    label = "unreachable"
    retryable = True
    means_outage = True


class TimedOut(ServiceFault):
    label = "timeout"
    retryable = True
    means_outage = True


class RateLimited(ServiceFault):
    label = "rate_limited"
    retryable = True
    means_outage = True


class ServerError(ServiceFault):
    label = "server_error"
    retryable = True
    means_outage = True


class Unauthorised(ServiceFault):
    label = "unauthorised"
    means_outage = True


class Rejected(ServiceFault):
    label = "rejected"


class ContextOverflow(Rejected):
    label = "context_overflow"


class BadResponse(ServiceFault):
    label = "bad_answer"
    retryable = True


class NotJson(BadResponse):
    label = "not_json"
    means_outage = True


class Truncated(BadResponse):
    label = "truncated"
    means_outage = True


class TooLarge(BadResponse):
    label = "too_large"
    retryable = False


class EmptyResponse(BadResponse):
    label = "empty_answer"


class Refused(ModelFault):
    """The model declined to answer; the message holds its words."""

    label = "refusal"


class MalformedArguments(ModelFault):
    label = "malformed_arguments"


class BudgetReached(ModelFault):
    """A budget is spent. `code` is how the attempt ends; `scope` is whose budget it was: attempt, task or run."""

    label = "budget"

    def __init__(self, message: str, *, code: TerminationCode, scope: str) -> None:
        super().__init__(message)
        self.code = code
        self.scope = scope


class ReplayFault(ModelFault):
    label = "replay"


class ReplayDiverged(ReplayFault):
    """`diff` shows how the request differs from the recorded one."""

    label = "replay_diverged"

    def __init__(self, message: str, *, diff: str) -> None:
        super().__init__(message)
        self.diff = diff


class ReplayExhausted(ReplayFault):
    label = "replay_exhausted"


def label_of(fault: ModelFault) -> str:
    """Return the status of a fault in events."""
    return str(getattr(fault, "label", "model_error"))
