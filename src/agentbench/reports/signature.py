"""The signature of a run as reports show it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from agentbench.core.text import printable
from agentbench.record.naming import SIGNATURE
from agentbench.record.seals import AlteredRecord

NOT_SIGNED = "not signed"


class RunSignature(NamedTuple):
    line: str
    altered: tuple[AlteredRecord, ...] = ()
    """A signature that does not match the run leaves every record in doubt."""


def read_signature(folder: Path) -> RunSignature:
    """Compare the records of a run with its signature. The evidence files of attempts are left to `ab verify`.

    Raises:
        InputError: the trust file is invalid.
        RecordError: a file cannot be read.
    """
    if not (folder / SIGNATURE).is_file():
        return RunSignature(NOT_SIGNED)
    from agentbench.signing.run_signature import State, check_signature  # noqa: PLC0415 - most runs are not signed
    from agentbench.signing.trust import default_trust  # noqa: PLC0415

    check = check_signature(folder, default_trust())
    altered = check.state is State.ALTERED
    return RunSignature(
        printable(check.line()),
        (AlteredRecord(SIGNATURE, None, f"does not match: {check.problems[0]}"),) if altered else (),
    )
