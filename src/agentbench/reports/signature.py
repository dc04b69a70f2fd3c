"""The signature of a run as reports show it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from agentbench.core.text import printable
from agentbench.record.naming import SIGNATURE
from agentbench.record.seals import AlteredRecord

NOT_SIGNED = "not signed"
RECORDS = " (records compared, evidence files not: see ab verify)"
EVERYTHING = " (records and evidence files compared)"


class RunSignature(NamedTuple):
    line: str
    altered: tuple[AlteredRecord, ...] = ()
    """A signature that does not match the run leaves every record in doubt."""


def with_evidence(line: str, altered: AlteredRecord | None, *, complete: bool) -> str:
    """Return the line about a signature after evidence files were compared with the seals that it covers.

    `complete`: the files of all attempts were compared.
    """
    if not line.endswith(RECORDS):
        return line
    if altered is not None:
        return printable(f"SIGNATURE DOES NOT MATCH: {altered}")
    return line.removesuffix(RECORDS) + EVERYTHING if complete else line


def read_signature(folder: Path) -> RunSignature:
    """Compare the files that the signature names with the run: its records and the lists of evidence files.

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
        printable(check.line()) + RECORDS * check.ok,
        (AlteredRecord(SIGNATURE, None, f"does not match: {check.problems[0]}"),) if altered else (),
    )
