"""Setups that failed: kept beside where their layers would be, so that neither the next attempt nor the next process repeats them.

Only what would come out the same again is kept. A time that was up, a network that did not answer and a disk that was full
are not: the same setup may work in an hour. Nor is a setup that got secrets: whether they were right is not ours to write down.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentbench.core.canonical import Json, digest
from agentbench.core.errors import SetupFailed
from agentbench.core.ids import now_iso
from agentbench.sandbox.environments import prepared_metadata as preserved
from agentbench.sandbox.environments.layers import LayerStore
from agentbench.sandbox.protocol import SandboxSpec, SetupPlan, SetupStep

RETRY = "correct the setup; `--fresh-setup` tries it again as it is, and `ab cache prune` forgets that it failed"
_LOOKED_AT = 20_000
_MAY_PASS = re.compile(
    rb"name resolution|could not resolve|connection (?:refused|reset|aborted|broken|timed out)|network is unreachable|"
    rb"no route to host|timed out|temporarily unavailable|temporary failure|proxyerror|sslerror|remote end closed|"
    rb"too many requests|(?:error|status)[^\n]{0,20}\b(?:429|50[0-4])\b|no space left|quota exceeded|cannot allocate memory|"
    # What pip, uv, npm, go, cargo, curl and git say when a server or a cable is the reason.
    rb"name or service not known|no such host|dns error|failed to lookup|\benotfound\b|\beai_again\b|\betimedout\b|"
    rb"\beconn(?:reset|refused|aborted)\b|i/o timeout|incompleteread|incomplete message|unexpected eof|early eof|"
    rb"tls handshake|empty reply from server|spurious network error|remotedisconnected|the remote end hung up|"
    # A Dockerfile's base that is not here yet: somebody may pull or build it, and nothing of the file changes.
    rb"pull access denied|repository does not exist|manifest unknown|manifest for \S+ not found|toomanyrequests|failed to resolve",
    re.IGNORECASE,
)
_ENDED_FROM_OUTSIDE = frozenset({-2, -9, -15, 130, 137, 143})
"""Somebody's kill, or the host's own want of memory. What goes over the limit of its sandbox is said to be out of memory."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What may fail."""

    key: str
    label: str
    conditions: str
    """What a failure may hang on beyond what decides the result of a setup that works."""
    keep: bool = True
    """False: with secrets."""


@dataclass(frozen=True, slots=True)
class Failure:
    message: str
    remedy: str
    steps: tuple[SetupStep, ...]
    at: str = ""
    """When an earlier process met it; empty: this one did."""


class Failures:
    """Of one backend and, in its store, of those before it."""

    def __init__(self, layers: LayerStore, kind: str) -> None:
        self._layers = layers
        self._kind = kind
        self._own: dict[str, Failure] = {}

    def repeat_own(self, key: str, on_step: Callable[[SetupStep], None]) -> None:
        """
        Raises:
            SetupFailed: it failed before in this backend, whatever the reason was.
        """
        if key in self._own:
            _raise(self._own[key], on_step)

    def repeat_older(self, what: Subject, on_step: Callable[[SetupStep], None]) -> None:
        """
        Raises:
            SetupFailed: an earlier process met it under the same conditions.
        """
        found = self._layers.failure(self._kind, what.key)
        if found is None or found["conditions"] != what.conditions:
            return
        failure = Failure(
            str(found["message"]), str(found["remedy"]), preserved.load_steps(found["steps"]), str(found["created"])
        )
        self._own[what.key] = failure
        _raise(failure, on_step)

    def note(self, what: Subject, steps: Sequence[SetupStep], error: SetupFailed) -> None:
        """The caller holds the lock of its builders."""
        self._own[what.key] = Failure(error.message, error.remedy, tuple(steps))
        if not what.keep or _may_pass(steps, error):
            return
        record: dict[str, Json] = {
            "label": what.label,
            "created": now_iso(),
            "conditions": what.conditions,
            "message": error.message,
            "remedy": error.remedy,
            "steps": preserved.dump_steps(steps),
        }
        self._layers.record_failure(self._kind, what.key, record)

    def forget(self, key: str) -> None:
        """It worked after all."""
        self._layers.forget_failure(self._kind, key)


def subject(key: str, plan: SetupPlan, spec: SandboxSpec, registries: Sequence[str]) -> Subject:
    limits = spec.limits
    held: list[Json] = [str(limits.cpus), limits.memory_mb, limits.pids, limits.disk_mb, limits.inodes]
    return Subject(key, plan.key, digest([held, list(registries)]), keep=not plan.secrets)


def _may_pass(steps: Sequence[SetupStep], error: SetupFailed) -> bool:
    said = error.message.encode()
    last = steps[-1] if steps else None
    if last is not None and not last.capture:
        if last.timed_out or (last.exit_code in _ENDED_FROM_OUTSIDE and "out of memory" not in error.message):
            return True
        said += last.stderr[-_LOOKED_AT:] + last.stdout[-_LOOKED_AT:]
    return _MAY_PASS.search(said) is not None


def _raise(failure: Failure, on_step: Callable[[SetupStep], None]) -> None:
    for step in failure.steps:
        on_step(step)
    if failure.at:
        # First, since what a program said may be long, and is cut short where room is.
        message = f"known to fail since {failure.at}, not tried again (`--fresh-setup` does): {failure.message}"
        raise SetupFailed(message, remedy=f"{failure.remedy}; {RETRY}" if failure.remedy else RETRY)
    raise SetupFailed(
        failure.message, remedy=failure.remedy or "tried once in this run; correct the setup and run again"
    )
