"""Sets how much text the evidence of a run has, and whether a restricted store keeps the originals of the rest."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.user_name import user_name
from agentbench.trace.originals import Discarded, EvidenceTerms, EvidenceText

PASSPHRASE = "AB_VAULT_PASSPHRASE"


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The restricted store of a run. Without a folder, originals are not kept."""

    folder: str = ""
    recipients: tuple[str, ...] = ()
    """Who can read the originals; empty if a passphrase protects them."""
    passphrase: str = field(default="", repr=False)
    """Only in memory: a resumed run needs none."""

    def as_json(self) -> dict[str, Json]:
        return {"folder": self.folder, "recipients": list(self.recipients)}

    @classmethod
    def from_json(cls, value: object) -> StoreOptions:
        """Raises TypeError, ValueError or KeyError if the value is not one of `as_json`."""
        if value is None:
            return cls()
        if not isinstance(value, dict):
            raise TypeError("not the options of a store")
        return cls(str(value["folder"]), tuple(map(str, value["recipients"])))


def described(text: EvidenceText, store: StoreOptions, run_key: str = "") -> dict[str, Json]:
    """Return what `run.json` says about the evidence. `run_key` is the public key that originals are encrypted for."""
    if not store.folder:
        return {"text": text, "originals": "not kept"}
    protection: dict[str, Json] = {"recipients": list(store.recipients)} if store.recipients else {"passphrase": True}
    return {"text": text, "originals": "kept", **protection, "run_key": run_key}


def sealed_run_key(meta: Mapping[str, Json]) -> str:
    """Return the public key that `run.json` names; empty in runs of earlier versions and in those that keep nothing."""
    evidence = meta.get("evidence")
    return str(evidence.get("run_key") or "") if isinstance(evidence, Mapping) else ""


NO_STORE = StoreOptions()


def create_store(options: StoreOptions, run_id: str) -> str:
    """Create the part of the restricted store that belongs to a new run, if the run has one, and return its public key.

    Raises:
        InputError: a recipient is invalid, the passphrase is missing, or the package for encryption is.
        RecordError: the store cannot be written.
    """
    if not options.folder:
        return ""
    # A run that repeats attempts of another has its options, but not its passphrase.
    passphrase = options.passphrase or os.environ.get(PASSPHRASE, "")
    if not options.recipients and not passphrase:
        raise InputError("the originals are protected by a passphrase", remedy=f"set ${PASSPHRASE}")
    from agentbench.vault.access_log import append, entry  # noqa: PLC0415 - few runs have a store
    from agentbench.vault.age import Protection  # noqa: PLC0415
    from agentbench.vault.store import RunStore  # noqa: PLC0415

    created = entry(
        action="create",
        outcome="granted",
        who=user_name(),
        reason="ab run",
        run_id=run_id,
        recipients=options.recipients,
    )
    append(Path(options.folder), created)
    return RunStore(Path(options.folder), run_id).create(Protection(options.recipients, passphrase))


def evidence_terms(text: EvidenceText, options: StoreOptions, run_id: str, run_key: str) -> EvidenceTerms:
    """Return how the attempts of a run treat text. `run_key` is the public key that the run has sealed, if any."""
    withhold = text == "digest"
    if not options.folder:
        return EvidenceTerms(text, lambda _attempt_id: Discarded() if withhold else None)
    from agentbench.vault.store import RunStore  # noqa: PLC0415 - few runs have a store

    store = RunStore(Path(options.folder), run_id)
    return EvidenceTerms(text, lambda attempt_id: store.attempt(attempt_id, withhold=withhold, run_key=run_key))


def require_compatible(text: EvidenceText, *, operator: bool) -> None:
    """
    Raises:
        InputError: the run has an operator, who reads alerts on disk, and keeps no text there.
    """
    if text == "digest" and operator:
        msg = "--evidence digest and --operator cannot be combined: an operator reads alerts, and their text is not on disk"
        raise InputError(msg, remedy="omit --operator, or use --evidence redacted")
