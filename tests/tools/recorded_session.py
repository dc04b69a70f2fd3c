"""A fake sandbox on a plain folder, and a session with its log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from agentbench.core.command import Command, Completed, ProcessCounts, Stream
from agentbench.sandbox.protocol import ProcessEnd, ProcessObserver, ProcessStart, RunningCommand, Sandbox, Usage
from agentbench.tools.rules import Rules
from agentbench.tools.session import BriefingText, Session
from agentbench.tools.session_limits import SessionEnvironment, SessionLog
from agentbench.trace.blobs import BlobStore
from agentbench.trace.chain import Event
from agentbench.trace.events import Payload
from agentbench.trace.log import EventLog, read_events
from agentbench.tree.entry import FileWrite, Tree
from agentbench.tree.folder import FolderTree

P = TypeVar("P", bound=Payload)


class FolderSandbox:
    """A folder as a sandbox, for tests of the host side. Tests define what commands do."""

    id = "folder"
    observation_problem: str | None = "a folder is no sandbox"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commands: list[Command] = []
        self.on_run: Callable[[Command], Completed] = lambda _command: completed()
        self.processes: Sequence[ProcessStart | ProcessEnd] | None = None
        """The processes that an observed command reports; None if it cannot be observed."""
        self.dropped = 0

    def run(self, command: Command, *, observe: ProcessObserver | None = None) -> Completed:
        self.commands.append(command)
        result = self.on_run(command)
        if observe is None or self.processes is None:
            return result
        for process in self.processes:
            observe(process)
        started = sum(isinstance(process, ProcessStart) for process in self.processes) + self.dropped
        return replace(result, processes=ProcessCounts(started, self.dropped, 0))

    def start(
        self,
        command: Command,
        *,
        on_stdout: Callable[[bytes], None] | None = None,
        on_stderr: Callable[[bytes], None] | None = None,
        observe: ProcessObserver | None = None,
    ) -> RunningCommand:
        raise NotImplementedError

    def write_files(self, files: Sequence[FileWrite]) -> None:
        for write in files:
            path = self.folder / write.path.decode()
            if write.content is None and write.symlink is None:
                path.unlink()
            elif write.content is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(write.content)
                path.chmod(0o755 if write.executable else 0o644)
            else:
                path.symlink_to((write.symlink or b"").decode())

    def kill_processes(self) -> int:
        return 0

    def tree(self) -> Tree:
        return FolderTree.at(self.folder)

    def usage(self) -> Usage:
        return Usage(None, None, None, None, None, None)

    def denied_calls(self) -> Mapping[str, int]:
        return {}

    def close(self) -> None: ...


def completed(
    stdout: bytes = b"", *, exit_code: int | None = 0, stderr: bytes = b"", timed_out: bool = False
) -> Completed:
    return Completed(exit_code, Stream.of(stdout), Stream.of(stderr), 0.1, timed_out)


@dataclass
class Clock:
    """A clock that only tests advance."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class RecordedSession:
    """A session, its log and its blobs."""

    session: Session
    log_path: Path
    blobs: BlobStore
    clock: Clock = field(default_factory=Clock)

    def events(self) -> list[Event]:
        return list(read_events(self.log_path))

    def of(self, kind: type[P]) -> list[P]:
        return [event.payload for event in self.events() if isinstance(event.payload, kind)]

    def types(self) -> list[str]:
        return [event.type for event in self.events()]


def record_session(
    sandbox: Sandbox, record: Path, rules: Rules, *, base: Tree | None = None, clock: Clock | None = None
) -> Iterator[RecordedSession]:
    blobs = BlobStore(record / "blobs")
    with EventLog.create(record / "events.jsonl") as log:
        briefing = BriefingText("do it\n", {"issue": "do it"})
        environment = SessionEnvironment(sandbox, base=base)
        written = SessionLog(log, blobs)
        if clock is None:
            session = Session(briefing, environment, rules, written)
        else:
            session = Session(briefing, environment, rules, written, clock=clock)
        session.begin()
        yield RecordedSession(session, record / "events.jsonl", blobs, clock or Clock())
        session.close()


def fill(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
