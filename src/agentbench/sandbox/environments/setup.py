"""Run a contract's setup commands, and keep secrets out of what is recorded and frozen."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from agentbench.core.command import Command, Completed
from agentbench.core.errors import SetupFailed
from agentbench.core.ids import new_ulid
from agentbench.core.package_settings import PackageSettings
from agentbench.sandbox.protocol import Sandbox, SetupPlan, SetupStep

_KEEP_BYTES = 256 * 1024
_SHOWN_CHARS = 1500
_CAPTURE_SEC = 120.0
_SCAN_BYTES = 4 << 20


class SetupRun:
    """The commands of one plan, run in one sandbox."""

    def __init__(self, plan: SetupPlan, credentials: Sequence[str], on_step: Callable[[SetupStep], None]) -> None:
        """`credentials`: parts of index and proxy addresses to redact, in addition to the plan's own secrets."""
        self._plan = plan
        self._on_step = on_step
        self._redactions = [
            (value.encode(), f"[redacted:{name}]".encode()) for name, value in plan.secrets.items() if value
        ]
        self._redactions += [(value.encode(), b"[redacted:index credentials]") for value in credentials]
        self.steps: list[SetupStep] = []

    def run(self, sandbox: Sandbox) -> None:
        """
        Raises:
            SetupFailed: a command failed or requested a host that is not allowed, or the commands took too long.
        """
        network = self._plan.network
        if network is not None:
            network.open(sandbox)
        deadline = time.monotonic() + self._plan.timeout_sec
        for line in self._plan.commands:
            left = max(0.1, deadline - time.monotonic())
            done = sandbox.run(Command(line=line, env=self._plan.secrets, timeout_sec=left, keep_bytes=_KEEP_BYTES))
            step = self._record(line, done, capture=False)
            if network is not None:
                network.check()
            self._check(step, done)
        for line in self._plan.capture:
            # A capture only observes the environment, so its failure is recorded and does not fail setup.
            done = sandbox.run(Command(line=line, timeout_sec=_CAPTURE_SEC, keep_bytes=_KEEP_BYTES))
            self._record(line, done, capture=True)

    def _record(self, line: str, done: Completed, *, capture: bool) -> SetupStep:
        step = SetupStep(
            command=self._redact(line.encode("utf-8", "surrogateescape")).decode("utf-8", "replace"),
            capture=capture,
            exit_code=done.exit_code,
            duration_sec=done.duration_sec,
            timed_out=done.timed_out,
            stdout=self._redact(done.stdout.kept),
            stderr=self._redact(done.stderr.kept),
        )
        self.steps.append(step)
        self._on_step(step)
        return step

    def _check(self, step: SetupStep, done: Completed) -> None:
        if done.ok:
            return
        if done.timed_out:
            raise SetupFailed(f"setup timed out after {self._plan.timeout_sec:g} s, in `{_in_one_line(step.command)}`")
        reason = "killed: out of memory" if done.oom else f"exit code {step.exit_code}"
        output = (step.stderr or step.stdout).decode("utf-8", "replace").strip()[-_SHOWN_CHARS:]
        raise SetupFailed(
            f"setup command `{_in_one_line(step.command)}` failed ({reason})" + (f": {output}" if output else "")
        )

    def _redact(self, data: bytes) -> bytes:
        for value, placeholder in self._redactions:
            data = data.replace(value, placeholder)
        return data


def _in_one_line(command: str) -> str:
    """Return the first and the last line of a command: what is between them can be a whole lock file."""
    first, *others = command.strip().splitlines() or [""]
    return f"{first} … {others[-1]}" if others else first


@contextlib.contextmanager
def pip_conf(settings: PackageSettings, folder: Path) -> Iterator[Path]:
    """Write the host's package settings as a pip.conf below `folder`, which exists only while setup runs.

    It may hold credentials: the sandbox gets the file itself as a mount, and no other user can enter the folder around it.
    """
    private = folder / f"setup-{new_ulid().lower()}"
    private.mkdir(mode=0o700)
    config = private / "pip.conf"
    try:
        config.write_text(settings.pip_conf())
        config.chmod(0o644)
        yield config
    finally:
        config.unlink(missing_ok=True)
        private.rmdir()


def secret_scanner(secrets: Mapping[str, str]) -> Callable[[bytes, int], None] | None:
    """Return a function that raises SetupFailed for a file that contains a secret, or None if there are no secrets.

    The agent must not find a secret of the setup phase in its environment.
    """
    values = {name: value.encode() for name, value in secrets.items() if value}
    if not values:
        return None

    def scan(path: bytes, fd: int) -> None:
        tail = b""
        while chunk := os.read(fd, _SCAN_BYTES):
            window = tail + chunk
            for name, value in values.items():
                if value in window:
                    raise leaked_secret(name, path.decode("utf-8", "backslashreplace"))
            tail = window[-max(map(len, values.values())) :]

    return scan


def leaked_secret(name: str, path: str) -> SetupFailed:
    return SetupFailed(
        f"setup left the value of secret {name} in {path}, where the agent would find it",
        remedy="remove it during setup, or pass it only to the command that needs it",
    )
