"""Reads originals of a run from the restricted store. Every access is logged before the original is returned, and so is every
refusal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NoReturn

from agentbench.core.canonical import CanonicalError, parse_canonical, sha256_hex
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentBenchError, InputError, RecordError
from agentbench.execution.evidence import sealed_run_key
from agentbench.record.attempt_folder import EVENTS, ORIGINALS, attempt_path, content
from agentbench.record.find_run import run_id
from agentbench.record.run_directory import RunDirectory
from agentbench.record.schema import AttemptRecord
from agentbench.record.seals import altered_evidence, read_seals
from agentbench.trace.log import read_events
from agentbench.trace.originals import of_event, of_file, of_output
from agentbench.vault.access_log import REPAIR, append, destroyed, entry, knows
from agentbench.vault.age import Unlock, Unreadable, WrongKey, decrypt, recipient_of
from agentbench.vault.store import RunStore, store_folder, unsalted

Action = Literal["get", "replay", "rotate", "destroy"]


class AlteredOriginal(AgentBenchError):
    """An original, or what the evidence says about it, was changed."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Access:
    """Who wants to read originals, what for, and why."""

    action: Action
    who: str
    reason: str


@dataclass(frozen=True, slots=True)
class EventOriginals:
    """The originals of an event. An event whose outputs alone were redacted has no original payload."""

    payload: bytes | None
    outputs: Mapping[str, bytes]
    """By digest."""


class OriginalsReader:
    """The originals of one run, opened with a key."""

    def __init__(self, run: Path, store: RunStore, access: Access, identity: str) -> None:
        self._run = run
        self._store = store
        self._access = access
        self._identity = identity

    @classmethod
    def open(cls, run: Path, store: RunStore, access: Access, unlock: Unlock) -> OriginalsReader:
        """Open the originals of a run.

        Raises:
            InputError: there are none, no reason was given, they were destroyed, or the key is wrong.
            AlteredOriginal: the key of the run was changed.
        """
        check_access(store, access)
        try:
            identity = store.identity(unlock)
        except WrongKey as error:
            refuse(store, access, error.message, remedy="use the key of a recipient; `ab vault log` says who they are")
        except (Unreadable, RecordError) as error:
            log(store, access, "refused", why=error.message)
            raise AlteredOriginal(f"{store.folder}/key.age: {error.message}") from None
        except InputError as error:
            refuse(store, access, error.message, remedy=error.remedy or "")
        sealed = sealed_run_key(RunDirectory.open(run).meta)
        if sealed and recipient_of(identity) != sealed:
            why = "the store has another key than the one that run.json names"
            log(store, access, "refused", why=why)
            raise AlteredOriginal(f"{store.folder}: {why}")
        return cls(run, store, access, identity)

    def event(self, record: AttemptRecord, seq: int) -> EventOriginals:
        """Return the originals of an event: its payload before redaction, and its outputs in full."""
        place = of_event(seq)
        with self._logged_refusal(record, place):
            digests = _outputs_of(self._run, record, seq)
            kept = _listed(self._run, record)
        outputs = [digest for digest in digests if of_output(digest) in kept]
        # Reading an event without any original is a refusal.
        payload = self._read(record, place) if place in kept or not outputs else None
        return EventOriginals(payload, {digest: self._read(record, of_output(digest)) for digest in outputs})

    def file(self, record: AttemptRecord, name: str) -> bytes:
        """Return a file of the attempt's folder as it was before redaction."""
        return self._read(record, of_file(name))

    def has_file(self, record: AttemptRecord, name: str) -> bool:
        """Return whether the run keeps the original of a file."""
        with self._logged_refusal(record, of_file(name)):
            return of_file(name) in _listed(self._run, record)

    def _read(self, record: AttemptRecord, place: str) -> bytes:
        with self._logged_refusal(record, place):
            original = self._checked(record, place)
        self._log(record, place, "granted")
        return original

    def _checked(self, record: AttemptRecord, place: str) -> bytes:
        expected = _listed(self._run, record).get(place)
        if expected is None:
            folder = record.artifact_paths.task_dir
            remedy = f"{folder}/{ORIGINALS} lists what was redacted or withheld; all else is in {folder} as it was"
            raise InputError(f"the run keeps no original of {place}", remedy=remedy)
        altered = _altered(self._run, record)
        if altered:
            raise AlteredOriginal(altered)
        entries = [entry for entry in self._store.entries(record.attempt_id) if entry.place == place]
        if not entries:
            raise AlteredOriginal(f"{place} is missing in the store, or its line was changed")
        try:
            salted = decrypt(entries[-1].data, [self._identity])
        except (WrongKey, Unreadable):
            raise AlteredOriginal(f"{place} was changed in the store: it cannot be decrypted") from None
        if sha256_hex(salted) != expected:
            raise AlteredOriginal(f"{place} is not the original that the run sealed: another digest")
        return unsalted(salted)

    @contextmanager
    def _logged_refusal(self, record: AttemptRecord, place: str) -> Iterator[None]:
        """Log an error as the refusal of an access."""
        try:
            yield
        except AgentBenchError as error:
            self._log(record, place, "refused", error.message)
            raise

    def _log(self, record: AttemptRecord, place: str, outcome: str, why: str = "") -> None:
        log(self._store, self._access, outcome, attempt_id=record.attempt_id, place=place, why=why)


def run_store(run: Path, store: Path | None = None) -> RunStore:
    """Return the part of a store that belongs to a run; by default of the store beside it or at $AB_VAULT.

    Raises:
        InputError: the run has no valid id.
    """
    return RunStore(store or store_folder(run.absolute().parent), run_id(run))


def check_access(store: RunStore, access: Access) -> None:
    """Refuse an access without a reason or a name, or to originals that do not exist.

    Raises:
        InputError.
    """
    if not access.reason.strip():
        refuse(store, access, "no reason given", remedy="say why with --reason TEXT")
    if not access.who.strip():
        refuse(store, access, "no name given", remedy="say who you are with --by NAME")
    end = destroyed(store.store, store.run_id)
    if end is not None and not (store.exists() and access.action == "destroy"):
        gone = f"the originals were destroyed at {end.at} by {end.who} ({end.reason})"
        remedy = "a copy was restored since then; `ab vault destroy` removes it" if store.exists() else ""
        refuse(store, access, gone, remedy=remedy)
    if store.exists():
        if not knows(store.store, store.run_id):
            refuse(store, access, "the access log does not know this run: it was replaced", remedy=REPAIR)
        return
    remedy = "name the store with $AB_VAULT; `evidence` in run.json says whether originals were kept"
    refuse(store, access, f"{store.store} has no originals of this run", remedy=remedy)


def keeps_originals(run: Path) -> bool:
    """Return whether a run was made with a restricted store."""
    evidence = RunDirectory.open(run).meta.get("evidence")
    return isinstance(evidence, Mapping) and evidence.get("originals") == "kept"


def store_note(run: Path) -> str:
    """Describe where the originals of a run are; empty if it keeps none."""
    if not keeps_originals(run):
        return ""
    store = run_store(run)
    end = destroyed(store.store, store.run_id)
    if end is not None:
        restored = "; a copy was restored since then, remove it with `ab vault destroy`" if store.exists() else ""
        return f"originals were destroyed at {end.at} by {end.who} ({end.reason}){restored}"
    if store.exists():
        return f"originals are in the restricted store {store.store}"
    return (
        "the restricted store with the originals is neither beside the run nor at $AB_VAULT; nothing else depends on it"
    )


def log(store: RunStore, access: Access, outcome: str, **fields: object) -> None:
    """Log an access to a store that exists. Elsewhere there is nothing to protect.

    Raises:
        RecordError: it cannot be logged, and must not take place.
    """
    if store.store.is_dir():
        append(
            store.store,
            entry(
                action=access.action,
                outcome=outcome,
                who=access.who,
                reason=access.reason,
                run_id=store.run_id,
                **fields,
            ),
        )


def refuse(store: RunStore, access: Access, why: str, remedy: str = "") -> NoReturn:
    """Log a refusal and raise it."""
    log(store, access, "refused", why=why)
    raise InputError(why, remedy=remedy)


def _listed(run: Path, record: AttemptRecord) -> dict[str, str]:
    """Return the salted digests of an attempt's originals by place, as its evidence has them.

    Raises:
        AlteredOriginal: the list cannot be read.
    """
    data = content(attempt_path(run, record.artifact_paths.task_dir) / ORIGINALS)
    if data is None:
        return {}
    try:
        value = parse_canonical(data.removesuffix(b"\n"))
        originals = value["originals"] if isinstance(value, Mapping) else None
        if isinstance(originals, Mapping):
            return {place: str(kept["sha256"]) for place, kept in originals.items() if isinstance(kept, Mapping)}
    except (CanonicalError, KeyError):
        pass
    raise AlteredOriginal(f"{record.artifact_paths.task_dir}/{ORIGINALS} is not a list of originals")


def _outputs_of(run: Path, record: AttemptRecord, seq: int) -> list[str]:
    """Return the digests of the outputs in an event.

    Raises:
        InputError: the attempt has no such event.
        RecordError: the log cannot be read.
    """
    for event in read_events(attempt_path(run, record.artifact_paths.task_dir) / EVENTS):
        if event.seq == seq:
            return _digests(event.payload.model_dump(mode="json"))
    raise InputError(f"attempt {record.attempt_id} has no event {seq}")


def _digests(value: object) -> list[str]:
    """Collect the digests of all excerpts in a payload."""
    if isinstance(value, dict):
        own = [str(value["sha256"])] if "total_bytes" in value and value.get("sha256") else []
        return own + [digest for inner in value.values() for digest in _digests(inner)]
    if isinstance(value, list):
        return [digest for inner in value for digest in _digests(inner)]
    return []


def _altered(run: Path, record: AttemptRecord) -> str:
    """Return how the evidence of an attempt differs from its seal; empty if it does not."""
    seals = read_seals(run)
    seal = seals.seals.get(record.attempt_id)
    if seals.broken is not None or seals.run_json is not None or seal is None:
        return str(seals.broken or seals.run_json or f"attempt {record.attempt_id} is not sealed")
    alteration = altered_evidence(run, record, seal, reduced=record.attempt_id in seals.reduced)
    return "" if alteration is None else f"the evidence was changed: {alteration}"
