"""The witness: an append-only log of signed runs, kept apart from them, so that a run cannot be dropped silently.

The log is `witness.jsonl` in a folder, or on the branch `agentbench-witness` of a git repository (`git_witness_log.py`). Each line is a
DSSE envelope whose payload names a run, its head, and the SHA-256 of the line before. Changing or removing a line needs a key of
the signers, except for removing the last lines; publish the folder or push the branch so that these cannot be removed either.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from agentbench.core.canonical import CanonicalError, canonical, parse_strict, sha256_hex
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.file_lock import file_lock
from agentbench.core.ids import now_iso
from agentbench.core.regular_file import open_regular
from agentbench.record.attempt_folder import EVENTS
from agentbench.record.durable import append_line, drop_torn_line
from agentbench.record.find_run import run_id
from agentbench.signing.envelope import BadEnvelope, read_envelope, seal
from agentbench.signing.keys import SigningKey
from agentbench.signing.trust import Trust
from agentbench.trace.chain import BadLine, read_line
from agentbench.trace.log import tail
from agentbench.trace.verify import Problem

LOG = "witness.jsonl"
LOCK = ".lock"
PAYLOAD_TYPE = "application/vnd.agentbench.witness.v1+json"
START = "0" * 64
MAX_LOG_BYTES = 64 * 1024**2
"""About 70,000 runs."""


class Entry(BaseModel):
    """One signed run."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    seq: int
    prev: str
    """SHA-256 of the line before; zeros in the first."""
    run_id: str
    name: str
    """Name of the run directory."""
    head: str
    events: int
    witnessed_at: str


@dataclass(frozen=True, slots=True)
class WitnessLog:
    """A witness log, checked up to its first problem."""

    entries: tuple[Entry, ...]
    problem: Problem | None = None
    heads: tuple[str, ...] = ()
    """SHA-256 of every line, in order. The last is the head of the log."""

    @property
    def head(self) -> str:
        return f"sha256:{self.heads[-1]}" if self.heads else "none"

    def latest(self) -> Mapping[str, Entry]:
        """Return the last entry of every run."""
        return {entry.run_id: entry for entry in self.entries}


def witness_run(place: Path, run: Path, key: SigningKey) -> Entry:
    """Append the head of a run to the witness log at `place`, which is created if it does not exist.

    Raises:
        InputError: the log is broken, or cannot be written.
        RecordError: the run cannot be read.
    """
    add = entry_writer(run, key)
    if is_git(place):
        from agentbench.signing.git_witness_log import append_commit  # noqa: PLC0415 - reports must not reach git

        return append_commit(place, add)
    try:
        place.mkdir(parents=True, exist_ok=True)
        with file_lock(place / LOCK):
            drop_torn_line(place / LOG)
            data = (place / LOG).read_bytes() if (place / LOG).exists() else b""
            line, entry = add(data)
            append_line(place / LOG, line)
    except OSError as error:
        raise InputError(f"cannot write the witness log {place}: {error.strerror}") from None
    return entry


Add = Callable[[bytes], tuple[bytes, Entry]]
"""Returns the line to append to a log with this content."""


def entry_writer(run: Path, key: SigningKey) -> Add:
    """Return a function that signs the entry of a run for the end of a log."""
    last = tail(run / EVENTS)

    def add(data: bytes) -> tuple[bytes, Entry]:
        log = read_log(data)
        if log.problem:
            raise InputError(f"the witness log is broken: {log.problem}", remedy="restore it from a copy")
        lines = data.splitlines()
        entry = Entry(
            seq=len(lines) + 1,
            prev=sha256_hex(lines[-1]) if lines else START,
            run_id=run_id(run),
            name=run.resolve().name,
            head=last.head,
            events=last.count,
            witnessed_at=now_iso(),
        )
        envelope = seal(PAYLOAD_TYPE, canonical(entry.model_dump(mode="json")), [key])
        return json.dumps(json.loads(envelope.encoded()), separators=(",", ":")).encode(), entry

    return add


def open_witness(place: Path, trust: Trust | None) -> WitnessLog:
    """Read and check the witness log at `place`. With `trust`, every entry must have a trusted signature.

    Raises:
        InputError: there is no log.
    """
    if is_git(place):
        from agentbench.signing.git_witness_log import committed_log  # noqa: PLC0415 - reports must not reach git

        data, problem = committed_log(place)
        log = read_log(data, trust)
        return replace(log, problem=problem or log.problem)
    try:
        with open_regular(place / LOG, MAX_LOG_BYTES) as file:
            return read_log(file.read(), trust)
    except OSError as error:
        msg = f"cannot read the witness log {place / LOG}: {error.strerror}"
        raise InputError(msg, remedy="`ab sign RUN --witness DIR` creates one") from None


def require_sound(place: Path) -> None:
    """
    Raises:
        InputError: the log at `place` exists and is broken or cannot be read.
    """
    log = WitnessLog(())
    if is_git(place):
        from agentbench.signing.git_witness_log import existing_log  # noqa: PLC0415 - reports must not reach git

        log = read_log(existing_log(place))
    elif (place / LOG).exists():
        log = open_witness(place, None)
    # A writer that died may have left an incomplete line, which the next one removes.
    if log.problem and log.problem.kind != "truncated":
        raise InputError(f"the witness log {place} is broken: {log.problem}", remedy="restore it from a copy")


def read_log(data: bytes, trust: Trust | None = None) -> WitnessLog:
    """Check the content of a log line by line."""
    entries: list[Entry] = []
    heads: list[str] = []
    *lines, torn = data.split(b"\n")
    for number, raw in enumerate(lines, start=1):
        try:
            entries.append(_entry(raw, number, heads[-1] if heads else START, trust))
        except ValueError as error:
            return WitnessLog(tuple(entries), Problem("changed", f"{LOG}:{number}", str(error)), tuple(heads))
        heads.append(sha256_hex(raw))
    problem = Problem("truncated", f"{LOG}:{len(lines) + 1}", "the last line is incomplete") if torn else None
    return WitnessLog(tuple(entries), problem, tuple(heads))


def _entry(raw: bytes, number: int, previous: str, trust: Trust | None) -> Entry:
    try:
        envelope = read_envelope(raw, PAYLOAD_TYPE)
        entry = Entry.model_validate(parse_strict(envelope.payload))
    except BadEnvelope as error:
        raise ValueError(f"the line {error}") from None
    except (ValidationError, CanonicalError):
        raise ValueError("the line is not an entry") from None
    if (entry.seq, entry.prev) != (number, previous):
        raise ValueError(f"entry {entry.seq} does not follow the previous line: lines were removed or changed")
    if trust is not None:
        objections = [trusted.objection(entry.witnessed_at) for key, trusted in trust.keys if envelope.signed_by(key)]
        if not objections or all(objections):
            raise ValueError(next(iter(objections), f"the entry is not signed with {trust.keys_text}"))
    return entry


# --- comparison -------------------------------------------------------------------------------------------------------


def witness_problems(log: WitnessLog, run: Path) -> Iterator[Problem]:
    """Compare a run with the log: it must have an entry, and the head that its last entry names."""
    entry = log.latest().get(run_id(run))
    if entry is None:
        yield Problem("missing", "", "the run is not in the witness log")
    elif _head_at(run, entry.events) != entry.head:
        yield Problem("changed", "", f"its chain is not the one of entry {entry.seq} (head {entry.head})")


def cut_off(log: WitnessLog, expect_head: str) -> Iterator[Problem]:
    """Require a head that was noted earlier: a log that only grew still contains its line."""
    if expect_head.removeprefix("sha256:") not in log.heads:
        yield Problem("removed", LOG, f"has no line with the digest {expect_head}: its end was cut off or rewritten")


def missing_runs(log: WitnessLog, present: Collection[str]) -> Iterator[Problem]:
    """Yield the runs of the log whose ids are not in `present`."""
    for entry in log.latest().values():
        if entry.run_id not in present:
            message = f"run {entry.run_id} is missing: entry {entry.seq} of the witness log, {entry.witnessed_at}"
            yield Problem("removed", entry.name, message)


def is_git(place: Path) -> bool:
    """Return whether a folder is a git repository, with a work tree or bare."""
    return (place / ".git").exists() or ((place / "HEAD").is_file() and (place / "objects").is_dir())


def _head_at(run: Path, events: int) -> str:
    """Return the hash of an event of the run's chain. `verify_run` checks the chain itself."""
    try:
        with (run / EVENTS).open("rb") as file:
            for number, raw in enumerate(file, start=1):
                if number == events:
                    return read_line(raw.rstrip(b"\n")).hash
    except (OSError, BadLine):
        pass
    return ""
