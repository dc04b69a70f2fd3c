"""The log of every access to a restricted store: one hash chain that several processes append to.

The log has an entry for the creation of every run in the store, so that a deleted or replaced log is noticed. `repair` is the only
way to go on after that; it sets the damaged log aside and says so in the new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agentbench.core.canonical import sha256_hex
from agentbench.core.errors import RecordError
from agentbench.core.file_lock import file_lock
from agentbench.core.ids import new_ulid, now_iso
from agentbench.trace.chain import BadLine, Event, read_line
from agentbench.trace.events import VaultAccess
from agentbench.trace.log import EventLog, Tail, read_events, tail
from agentbench.vault.age import private_folder

LOG = "access.jsonl"
KEY = "key.age"
"""Name of the encrypted key of a run, in its folder."""
SET_ASIDE = "access.damaged-*.jsonl"
REPAIR = "look into it; then `ab vault repair --reason TEXT` sets the log aside and starts a new one"
_LOCK = ".access.lock"


def append(folder: Path, access: VaultAccess) -> int:
    """Append an access and return its number. Waits for other processes.

    Raises:
        RecordError: the log was changed, was deleted or cannot be written. Then the access must not take place.
    """
    private_folder(folder)
    try:
        with file_lock(folder / _LOCK, 0o600):
            _require_log(folder)
            with _opened(folder / LOG) as log:
                number = log.append(access, "operator")
                log.sync()
                return number
    except OSError as error:
        raise RecordError.of("write", folder / LOG, error) from error


def entry(**fields: object) -> VaultAccess:
    """Return an access that happens now."""
    return VaultAccess.model_validate({**fields, "at": now_iso()})


def accesses(folder: Path) -> Iterator[Event]:
    """Yield the accesses, oldest first, without checking their chain."""
    if (folder / LOG).exists():
        yield from read_events(folder / LOG, types={VaultAccess.type})


def head(folder: Path) -> str:
    """Check the log and return the head of its chain; empty if nothing was logged.

    Raises:
        RecordError: the chain is broken, or lacks the creation of a run that the store has.
    """
    _require_log(folder)
    last = _tail(folder / LOG).head if (folder / LOG).exists() else ""
    known = _known_runs(folder)
    for run_id in _stored_ids(folder):
        if run_id not in known:
            message = f"{folder / LOG} has no entry about the creation of run {run_id}: it was replaced"
            raise RecordError(message, remedy=REPAIR)
    return last


def knows(folder: Path, run_id: str) -> bool:
    """Return whether the log has an entry about the creation of a run."""
    return run_id in _known_runs(folder)


def require_known(folder: Path, run_id: str) -> None:
    """
    Raises:
        RecordError: the log has no entry about the creation of a run that keeps originals.
    """
    if not knows(folder, run_id):
        raise RecordError(f"{folder / LOG} has no entry about this run: it was deleted or replaced", remedy=REPAIR)


def destroyed(folder: Path, run_id: str) -> VaultAccess | None:
    """Return the access that destroyed the originals of a run, if one did. Logs that were set aside count too."""
    return next((access for access in _destructions(folder) if access.run_id == run_id), None)


def _destructions(folder: Path) -> Iterator[VaultAccess]:
    for path in (folder / LOG, *sorted(folder.glob(SET_ASIDE))):
        for access in _readable(path):
            if (access.action, access.outcome) == ("destroy", "granted"):
                yield access


def repair(folder: Path, *, who: str, reason: str) -> str:
    """Set a damaged log aside and start a new one, whose first entries say so. Return the damage; empty if there is none.

    Raises:
        RecordError: a file cannot be read or written.
    """
    try:
        with file_lock(folder / _LOCK, 0o600):
            try:
                head(folder)
            except RecordError as error:
                damage = error.message
            else:
                return ""
            whys = {access.run_id: f"its originals were destroyed at {access.at}" for access in _destructions(folder)}
            whys |= dict.fromkeys(_stored_ids(folder), "the store had this run when the log was repaired")
            aside = folder / SET_ASIDE.replace("*", new_ulid())
            kept = ""
            if (folder / LOG).exists():
                kept = f"; set aside as {aside.name}, sha256:{sha256_hex((folder / LOG).read_bytes())}"
                (folder / LOG).rename(aside)
            with EventLog.create(folder / LOG) as log:
                for run_id, why in {"": f"{damage}{kept}", **whys}.items():
                    fields = {"action": "repair", "outcome": "granted", "who": who, "reason": reason}
                    log.append(entry(**fields, run_id=run_id, why=why), "operator")
                log.sync()
            return damage
    except OSError as error:
        raise RecordError.of("repair", folder / LOG, error) from error


def _require_log(folder: Path) -> None:
    """
    Raises:
        RecordError: the store has runs, but no log.
    """
    runs = [] if (folder / LOG).exists() else _stored_ids(folder)
    if runs:
        counted = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
        message = f"{folder / LOG} is missing, but the store has originals of {counted}: it was deleted"
        raise RecordError(message, remedy=REPAIR)


def _opened(path: Path) -> EventLog:
    if not path.exists():
        return EventLog.create(path)
    try:
        # A crash can leave an incomplete line, which was never acted upon.
        return EventLog.reopen(path)[0]
    except RecordError as error:
        raise RecordError(f"the access log was changed: {error.message}", remedy=REPAIR) from None


def _tail(path: Path) -> Tail:
    try:
        return tail(path)
    except RecordError as error:
        raise RecordError(error.message, remedy=REPAIR) from None


def _stored_ids(folder: Path) -> list[str]:
    """Return the runs whose originals are in the store."""
    return sorted(path.parent.name for path in folder.glob(f"*/{KEY}"))


def _known_runs(folder: Path) -> set[str]:
    return {access.run_id for access in _readable(folder / LOG) if access.action in {"create", "repair"}}


def _readable(path: Path) -> Iterator[VaultAccess]:
    """Yield the accesses of a log that may be damaged."""
    try:
        with path.open("rb") as file:
            for raw in file:
                try:
                    payload = read_line(raw.rstrip(b"\n")).typed()
                except BadLine:
                    continue
                if isinstance(payload, VaultAccess):
                    yield payload
    except FileNotFoundError:
        return
    except OSError as error:
        raise RecordError.of("read", path, error) from error
