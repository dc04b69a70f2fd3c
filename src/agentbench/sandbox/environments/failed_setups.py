"""Setups that failed, recorded beside their layers so that neither the next attempt nor the next process repeats them.

Only failures that would happen again are recorded. Timeouts, network errors and full disks are not: the same setup may work
in an hour. A setup that was given secrets is not recorded either, because the result may depend on their values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from agentbench.core.canonical import Json, digest
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import SetupFailed
from agentbench.core.ids import now_iso
from agentbench.sandbox.environments.layers import LayerStore
from agentbench.sandbox.environments.prepared_metadata import dump_steps, load_steps
from agentbench.sandbox.protocol import SandboxSpec, SetupPlan, SetupStep

RETRY = "fix the setup, or retry it unchanged with --fresh-setup (or `ab cache prune`, which forgets the failure)"
_SEARCHED_BYTES = 20_000
_TRANSIENT = (
    rb"name resolution|could not resolve|connection (?:refused|reset|aborted|broken|timed out)|network is unreachable|"
    rb"no route to host|timed out|temporarily unavailable|temporary failure|proxyerror|sslerror|remote end closed|"
    rb"too many requests|(?:error|status)[^\n]{0,20}\b(?:429|50[0-4])\b|no space left|quota exceeded|cannot allocate memory|"
    # Network errors of pip, uv, npm, go, cargo, curl and git.
    rb"name or service not known|no such host|dns error|failed to lookup|\benotfound\b|\beai_again\b|\betimedout\b|"
    rb"\beconn(?:reset|refused|aborted)\b|i/o timeout|incompleteread|incomplete message|unexpected eof|early eof|"
    rb"tls handshake|empty reply from server|spurious network error|remotedisconnected|the remote end hung up|"
    # A missing base image of a Dockerfile: it may be pulled or built later, while the file stays the same.
    rb"pull access denied|repository does not exist|manifest unknown|manifest for \S+ not found|toomanyrequests|failed to resolve"
)
_KILLED_FROM_OUTSIDE = frozenset({-2, -9, -15, 130, 137, 143})
"""Exit codes after a signal: an operator's, or the host's out-of-memory killer's.

A command that exceeds the sandbox's own memory limit is reported as out of memory.
"""


@dataclass(frozen=True, slots=True)
class SetupIdentity:
    """Identifies a setup whose failure may be recorded."""

    key: str
    label: str
    conditions: str
    """Conditions that can cause a failure but do not change the result of a successful setup: limits and registries."""
    recordable: bool = True


@dataclass(frozen=True, slots=True)
class Failure:
    message: str
    remedy: str
    steps: tuple[SetupStep, ...]
    recorded_at: str = ""
    """Time at which an earlier process recorded it; empty if it happened in this process."""


class FailedSetups:
    """The failed setups of one backend, and those that earlier processes recorded in its store."""

    def __init__(self, layers: LayerStore, kind: str) -> None:
        self._layers = layers
        self._kind = kind
        self._own: dict[str, Failure] = {}

    def raise_own(self, key: str, on_step: Callable[[SetupStep], None]) -> None:
        """
        Raises:
            SetupFailed: the setup failed before in this backend, for whatever reason.
        """
        if key in self._own:
            _raise(self._own[key], on_step)

    def raise_recorded(self, setup: SetupIdentity, on_step: Callable[[SetupStep], None]) -> None:
        """
        Raises:
            SetupFailed: an earlier process recorded that the setup fails under the same conditions.
        """
        record = self._layers.failure(self._kind, setup.key)
        if record is None or record["conditions"] != setup.conditions:
            return
        steps = load_steps(record["steps"])
        failure = Failure(str(record["message"]), str(record["remedy"]), steps, str(record["created"]))
        self._own[setup.key] = failure
        _raise(failure, on_step)

    def record(self, setup: SetupIdentity, steps: Sequence[SetupStep], error: SetupFailed) -> None:
        """The caller holds the store's `building` lock of the key."""
        self._own[setup.key] = Failure(error.message, error.remedy, tuple(steps))
        if not setup.recordable or _is_transient(steps, error):
            return
        record: dict[str, Json] = {
            "label": setup.label,
            "created": now_iso(),
            "conditions": setup.conditions,
            "message": error.message,
            "remedy": error.remedy,
            "steps": dump_steps(steps),
        }
        self._layers.record_failure(self._kind, setup.key, record)

    def forget(self, key: str) -> None:
        self._layers.forget_failure(self._kind, key)


def setup_identity(key: str, plan: SetupPlan, spec: SandboxSpec, registries: Sequence[str]) -> SetupIdentity:
    limits = spec.limits
    parts: list[Json] = [str(limits.cpus), limits.memory_mb, limits.pids, limits.disk_mb, limits.inodes]
    return SetupIdentity(key, plan.key, digest([parts, list(registries)]), recordable=not plan.secrets)


def _is_transient(steps: Sequence[SetupStep], error: SetupFailed) -> bool:
    output = error.message.encode()
    last = steps[-1] if steps else None
    if last is not None and not last.capture:
        if last.timed_out or (last.exit_code in _KILLED_FROM_OUTSIDE and "out of memory" not in error.message):
            return True
        output += last.stderr[-_SEARCHED_BYTES:] + last.stdout[-_SEARCHED_BYTES:]
    return re.search(_TRANSIENT, output, re.IGNORECASE) is not None


def _raise(failure: Failure, on_step: Callable[[SetupStep], None]) -> None:
    for step in failure.steps:
        on_step(replace(step, cached=True))
    if failure.recorded_at:
        # This comes first, because the program's own output may be long and is truncated where space is short.
        message = f"setup failed at {failure.recorded_at} and was not retried (use --fresh-setup): {failure.message}"
        raise SetupFailed(message, remedy=f"{failure.remedy}; {RETRY}" if failure.remedy else RETRY)
    raise SetupFailed(failure.message, remedy=failure.remedy or "fix the setup and run again (tried once per run)")
