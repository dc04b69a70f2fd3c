"""Prepares a run for publication: a signed copy with minimal evidence, searched for secrets."""

from __future__ import annotations

import shutil
from pathlib import Path

from agentbench.core.errors import InputError, RecordError
from agentbench.record.retention import reduce_run
from agentbench.signing.keys import SIGNING_KEY, SigningKey
from agentbench.signing.run_signature import sign_run
from agentbench.signing.statement import LATER
from agentbench.workspace.secrets.scan import RepositorySecrets, scan

REASON = "public bundle"
MAX_SHOWN = 10


def public_copy(run: Path, folder: Path, key: SigningKey) -> tuple[Path, RepositorySecrets]:
    """Copy a run below `folder`, delete bulky evidence of the copy, sign it, and search it for secrets.

    The original signature stays valid in the copy; the key signs that evidence was left out.

    Raises:
        InputError: the run does not verify, or has not ended.
        RecordError: a file cannot be read or written.
    """
    copy = folder / run.resolve().name
    try:
        shutil.copytree(run, copy, symlinks=True, ignore=lambda base, _names: LATER if Path(base) == run else ())
    except (OSError, shutil.Error) as error:
        raise RecordError(f"cannot copy {run}: {error}") from error
    approver = key.public.key_id if key.public.name == SIGNING_KEY else key.public.name
    reduce_run(copy, approved_by=approver, reason=REASON)
    sign_run(copy, key)
    return copy, scan(copy)


def require_no_secrets(scanned: RepositorySecrets) -> None:
    """
    Raises:
        InputError: something looks like a secret; with the places, never the values.
    """
    if not scanned.secrets:
        return
    places = [f"{secret.places[0]} ({secret.kind})" for secret in scanned.secrets]
    more = [f"and {len(places) - MAX_SHOWN} more"] if len(places) > MAX_SHOWN else []
    remedy = "\n  ".join(["look at these places; --allow-findings exports them:", *places[:MAX_SHOWN], *more])
    raise InputError(f"the public bundle would contain {len(places)} possible secrets", remedy=remedy)
