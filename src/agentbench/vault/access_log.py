"""The log of every access to a restricted store: one hash chain that several processes append to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agentbench.core.errors import RecordError
from agentbench.core.file_lock import file_lock
from agentbench.core.ids import now_iso
from agentbench.trace.chain import Event
from agentbench.trace.events import VaultAccess
from agentbench.trace.log import EventLog, read_events, tail
from agentbench.vault.age import private_folder

LOG = "access.jsonl"
_LOCK = ".access.lock"


def append(folder: Path, access: VaultAccess) -> int:
    """Append an access and return its number. Waits for other processes.

    Raises:
        RecordError: the log was changed or cannot be written. Then the access must not take place.
    """
    private_folder(folder)
    try:
        with file_lock(folder / _LOCK, 0o600):
            path = folder / LOG
            # A crash can leave an incomplete line, which was never acted upon.
            log = EventLog.reopen(path)[0] if path.exists() else EventLog.create(path)
            with log:
                number = log.append(access, "operator")
                log.sync()
                return number
    except OSError as error:
        raise RecordError.of("write", folder / LOG, error) from error


def entry(**fields: str) -> VaultAccess:
    """Return an access that happens now."""
    return VaultAccess.model_validate({**fields, "at": now_iso()})


def accesses(folder: Path) -> Iterator[Event]:
    """Yield the accesses, oldest first, without checking their chain."""
    if (folder / LOG).exists():
        yield from read_events(folder / LOG, types={VaultAccess.type})


def head(folder: Path) -> str:
    """Check the chain and return its head; empty if nothing was logged.

    Raises:
        RecordError: the chain is broken.
    """
    return tail(folder / LOG).head if (folder / LOG).exists() else ""


def destroyed(folder: Path, run_id: str) -> VaultAccess | None:
    """Return the access that destroyed the originals of a run, if one did."""
    for event in accesses(folder):
        match event.payload:
            case VaultAccess(action="destroy", outcome="granted") as access if access.run_id == run_id:
                return access
            case _:
                pass
    return None
