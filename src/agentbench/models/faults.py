"""What can go wrong with a model. All of it is a `ModelFault`: uncaught it ends an attempt as LLM_ERROR.

ModelFault
├── ServiceFault         the service did not answer usably
│   ├── Unreachable        no connection, or it broke
│   ├── TimedOut           no answer within the deadline
│   ├── RateLimited        429 until the deadline or the last try
│   ├── ServerError      5xx until then
│   ├── Unauthorised       401, 403: the key is wrong or may not
│   ├── Rejected           another 4xx: the request is not what the service takes
│   │   └── ContextOverflow  the conversation is longer than the model's window
│   └── BadResponse          an answer that cannot be read
│       ├── NotJson          no JSON, no UTF-8, another content type
│       ├── Truncated        the body or the stream ended too early
│       ├── TooLarge         more than we are ready to hold
│       └── EmptyResponse      no choice, or a choice with nothing in it
├── Refused              the model declined to answer
├── MalformedArguments   a tool call whose arguments are no JSON object
├── EndpointRefused      code of this sensitivity may not go to this endpoint
├── BudgetReached        nothing is left of a budget: not a fault of the model, and ends a run under its own code
└── ReplayFault          a recording or a script has no answer
    ├── ReplayDiverged     the request is not the one that was recorded
    └── ReplayExhausted    more requests than were recorded
"""

from __future__ import annotations

from typing import ClassVar

from agentbench.core.errors import ModelFault
from agentbench.core.reasons import TerminationCode


class ServiceFault(ModelFault):
    """The service did not answer usably. `status` is its HTTP status, None where there was none."""

    label: ClassVar[str] = "service_error"
    retryable: ClassVar[bool] = False

    def __init__(
        self, message: str, *, status: int | None = None, retry_after: float | None = None, remedy: str = ""
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.status = status
        self.retry_after = retry_after


class Unreachable(ServiceFault):
    label = "unreachable"
    retryable = True


class TimedOut(ServiceFault):
    label = "timeout"
    retryable = True


class RateLimited(ServiceFault):
    label = "rate_limited"
    retryable = True


class ServerError(ServiceFault):
    label = "server_error"
    retryable = True


class Unauthorised(ServiceFault):
    label = "unauthorised"


class Rejected(ServiceFault):
    label = "rejected"


class ContextOverflow(Rejected):
    label = "context_overflow"


class BadResponse(ServiceFault):
    label = "bad_answer"
    retryable = True


class NotJson(BadResponse):
    label = "not_json"


class Truncated(BadResponse):
    label = "truncated"


class TooLarge(BadResponse):
    label = "too_large"
    retryable = False


class EmptyResponse(BadResponse):
    label = "empty_answer"


class Refused(ModelFault):
    """The model declined; the message holds its words."""

    label = "refusal"


class MalformedArguments(ModelFault):
    label = "malformed_arguments"


class BudgetReached(ModelFault):
    """Nothing is left of a budget. `code` is how the run ends; `scope` says whose budget it was: run, task or total."""

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
    """The word by which events call a fault."""
    return str(getattr(fault, "label", "model_error"))
