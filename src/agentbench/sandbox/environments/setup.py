"""Running a contract's setup commands, and what may be recorded of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

from agentbench.core.command import Command, Completed
from agentbench.core.errors import SetupFailed
from agentbench.sandbox.protocol import Sandbox, SetupPlan, SetupStep

_KEEP_BYTES = 256 * 1024
_SHOWN_CHARS = 1500
_CAPTURE_SEC = 120.0
_LOOK_BYTES = 4 << 20


class SetupRun:
    """The commands of one plan in one sandbox."""

    def __init__(self, plan: SetupPlan, credentials: Sequence[str], on_step: Callable[[SetupStep], None]) -> None:
        """`credentials`: parts of index and proxy addresses that must not be recorded, beside the plan's own secrets."""
        self._plan = plan
        self._on_step = on_step
        self._hidden = [
            (value.encode(), f"[redacted:{name}]".encode()) for name, value in plan.secrets.items() if value
        ]
        self._hidden += [(value.encode(), b"[redacted:index credentials]") for value in credentials]
        self.steps: list[SetupStep] = []

    def run(self, box: Sandbox) -> None:
        """
        Raises:
            SetupFailed: a command failed or the time for all of them was up.
        """
        deadline = time.monotonic() + self._plan.timeout_sec
        for line in self._plan.commands:
            left = max(0.1, deadline - time.monotonic())
            done = box.run(Command(line=line, env=self._plan.secrets, timeout_sec=left, keep_bytes=_KEEP_BYTES))
            self._check(self._record(line, done, capture=False), done)
        for line in self._plan.capture:
            # A capture only looks: its failure is recorded and does not make the environment less prepared.
            done = box.run(Command(line=line, timeout_sec=_CAPTURE_SEC, keep_bytes=_KEEP_BYTES))
            self._record(line, done, capture=True)

    def _record(self, line: str, done: Completed, *, capture: bool) -> SetupStep:
        step = SetupStep(
            command=self.redact(line.encode("utf-8", "surrogateescape")).decode("utf-8", "replace"),
            capture=capture,
            exit_code=done.exit_code,
            duration_sec=done.duration_sec,
            timed_out=done.timed_out,
            stdout=self.redact(done.stdout.kept),
            stderr=self.redact(done.stderr.kept),
        )
        self.steps.append(step)
        self._on_step(step)
        return step

    def _check(self, step: SetupStep, done: Completed) -> None:
        if done.ok:
            return
        if done.timed_out:
            raise SetupFailed(f"setup was not done after {self._plan.timeout_sec:g} s, at `{step.command}`")
        why = "killed: out of memory" if done.oom else f"exit code {step.exit_code}"
        said = (step.stderr or step.stdout).decode("utf-8", "replace").strip()[-_SHOWN_CHARS:]
        raise SetupFailed(f"setup command `{step.command}` failed ({why}): {said}")

    def redact(self, data: bytes) -> bytes:
        for value, placeholder in self._hidden:
            data = data.replace(value, placeholder)
        return data


def secret_guard(secrets: Mapping[str, str]) -> Callable[[bytes, int], None] | None:
    """Looks at every file that setup leaves: a secret of the setup phase must not go on to an agent.

    The returned function raises SetupFailed.
    """
    values = {name: value.encode() for name, value in secrets.items() if value}
    if not values:
        return None

    def look(path: bytes, fd: int) -> None:
        tail = b""
        while chunk := os.read(fd, _LOOK_BYTES):
            window = tail + chunk
            for name, value in values.items():
                if value in window:
                    shown = path.decode("utf-8", "backslashreplace")
                    raise SetupFailed(
                        f"setup left the value of secret {name} in {shown}, where the agent would find it",
                        remedy="let setup remove it, or pass it to the one command that needs it",
                    )
            tail = window[-max(map(len, values.values())) :]

    return look
