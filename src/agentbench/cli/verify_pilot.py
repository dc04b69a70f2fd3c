"""`ab verify DIR` for the folder of a pilot."""

from __future__ import annotations

import json
from dataclasses import field
from pathlib import Path

from agentbench.core.dataclass import dataclass
from agentbench.core.text import printable
from agentbench.pilot.folder import REGISTRATION, REGISTRATIONS, RUNS
from agentbench.pilot.verification.result import PilotVerification, counts_text
from agentbench.pilot.verification.verify_pilot import verify_pilot
from agentbench.record.attempt_folder import hash_file
from agentbench.record.find_run import run_directories
from agentbench.record.naming import SIGNATURE
from agentbench.record.recompute import recompute
from agentbench.signing.run_signature import State, verify_signature
from agentbench.signing.trust import Trust

MAX_SHOWN = 20
"""Maximum number of problems printed; `--json` has all."""


def verify_pilot_folder(
    folder: Path, trust: Trust | None, *, signature_required: bool, as_json: bool
) -> tuple[str, bool]:
    """Verify a pilot, and the signatures of its registrations, logs and runs. Returns the text to print, and whether it is verified.

    If no signature is required, only one that does not match is a problem.
    """
    result = verify_pilot(folder, recompute, trust, signature_required=signature_required)
    signatures = _check_signatures(result, trust, required=signature_required)
    return (_as_json(result, signatures) if as_json else _as_text(result, signatures)), result.ok


@dataclass(slots=True)
class _Signatures:
    runs: int = 0
    signed: int = 0
    """Runs with a trusted signature."""
    signers: set[str] = field(default_factory=set)
    not_checked: int = 0
    """Signed runs without a trusted signature, if none is required."""

    def lines(self) -> list[str]:
        lines = (
            [f"  {self.signed} of {self.runs} runs are signed by {', '.join(sorted(self.signers))}"]
            if self.signed
            else []
        )
        if self.not_checked:
            lines.append(f"  signatures of {self.not_checked} runs not checked; check them with --signed-by KEY")
        return lines

    def as_json(self) -> dict[str, object]:
        return {
            "runs": self.runs,
            "signed": self.signed,
            "signers": sorted(self.signers),
            "not_checked": self.not_checked,
        }


def _check_signatures(result: PilotVerification, trust: Trust | None, *, required: bool) -> _Signatures:
    """Compare every run with its signature, and the registration that it names with those of the pilot."""
    signatures = _Signatures()
    for run in run_directories(result.path / RUNS):
        signatures.runs += 1
        check = verify_signature(run, trust)
        if check.ok:
            signatures.signed += 1
            signatures.signers.add(check.signer)
        elif required or check.state is State.ALTERED:
            for problem in check.problems:
                result.add(problem.kind, f"{RUNS}/{run.name}/{problem.place}", problem.message)
        else:
            signatures.not_checked += check.state is not State.UNSIGNED
        registration = check.statement.predicate.registration if check.statement else None
        if registration and registration.digest.get("sha256") not in _registrations(result.path):
            place = f"{RUNS}/{run.name}/{SIGNATURE}"
            result.add("inconsistent", place, f"names a {registration.name} that is not one of this pilot")
    return signatures


def _registrations(folder: Path) -> set[str]:
    return {hash_file(path)[0] for path in (folder / REGISTRATIONS).glob(f"*/{REGISTRATION}")}


def _as_text(result: PilotVerification, signatures: _Signatures) -> str:
    if result.ok:
        lines = [f"VERIFIED: {counts_text(result.counts)} recomputed"]
        lines += [*(f"  {line}" for line in result.signature_lines()), *signatures.lines()]
    else:
        lines = [f"{result.decision.upper()} {result.problems[0]}"]
        lines += [f"  {problem}" for problem in result.problems[1 : MAX_SHOWN + 1]]
        more = len(result.problems) - MAX_SHOWN - 1
        lines += [f"  and {more} more (see --json)"] if more > 0 else []
    lines += [f"  note: {note}" for note in result.notes]
    return "\n".join(map(printable, lines))


def _as_json(result: PilotVerification, signatures: _Signatures) -> str:
    value = {
        "pilot": str(result.path),
        "ok": result.ok,
        "decision": result.decision,
        "problems": [{"kind": item.kind, "place": item.place, "message": item.message} for item in result.problems],
        "notes": result.notes,
        **result.counts,
        "signatures": {
            **signatures.as_json(),
            "registrations": sorted(result.registrations.signers),
            "logs": result.logs.signer or None,
        },
    }
    return json.dumps(value, indent=2)
