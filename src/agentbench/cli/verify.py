"""`ab verify`: verify a run's hash chains, digests and verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import RUN, json_option

if TYPE_CHECKING:
    from agentbench.record.audit import RunReport
    from agentbench.signing.run_signature import SignatureCheck

DECISIONS = {
    "not signed": "NOT SIGNED",
    "stale": "STALE",
    "reduced": "REDUCED",
    "not trusted": "NOT TRUSTED",
    "altered": "ALTERED",
}
"""First words for a run that is consistent in itself, by the state of its signature."""
MAX_SHOWN = 20
"""Maximum number of problems printed; `--json` has all."""

EPILOG = """\b
Examples:
  ab verify artifacts/runs/2026-…__demo__baseline__none
  ab verify RUN --expect-head sha256:…
  ab verify RUN --signed-by trust.yaml
  ab verify RUN --json

The first line is VERIFIED, ALTERED with the first difference found, or INCOMPLETE if the run was never closed. With
--signed-by it can also be NOT SIGNED, NOT TRUSTED or STALE. Exit code 0 if VERIFIED, else 1. The output also lists decisions
that could not be recomputed and files that no hash chain covers.
"""


@click.command(epilog=EPILOG)
@click.argument("run", type=RUN)
@click.option("--expect-head", metavar="DIGEST", help="Expected head of the run's hash chain.")
@click.option(
    "--signed-by",
    metavar="KEY",
    help="Require a signature: a public key, a file with one, a trust file, or the name of a key.",
)
@json_option
def command(run: Path, *, expect_head: str | None, signed_by: str | None, as_json: bool) -> None:
    """Verify every hash chain, digest and verdict of a run directory, and its signature."""
    from agentbench.record.audit import verify_run
    from agentbench.record.recompute import recompute

    report = verify_run(run, recompute=recompute, expect_head=expect_head)
    signature = _check_signature(run, signed_by)
    click.echo(_as_json(report, signature) if as_json else _as_text(report, signature))
    if not report.ok or signature.problems:
        raise click.exceptions.Exit(1)


def _check_signature(run: Path, signed_by: str | None) -> SignatureCheck:
    """Check the signature. Without --signed-by, only one that does not match the run is a problem."""
    from dataclasses import replace

    from agentbench.signing.keys import keys_folder
    from agentbench.signing.run_signature import State, verify_signature
    from agentbench.signing.trust import default_trust, read_trust

    if signed_by is not None:
        return verify_signature(run, read_trust(signed_by, keys_folder()))
    check = verify_signature(run, default_trust())
    return check if check.state is State.ALTERED else replace(check, problems=())


def headline(report: RunReport, signature: SignatureCheck | None = None) -> str:
    """Return the decision and its main reason."""
    if not report.ok:
        first = report.problems[0]
        return f"{report.decision.upper()} {first.kind}: {first.place}: {first.message}"
    if signature is not None and signature.problems:
        first = signature.problems[0]
        return f"{DECISIONS[signature.state]} {first.kind}: {first.place}: {first.message}"
    return f"VERIFIED: {_counts(report)}" + (f", signed by {signature.signer}" if signature and signature.ok else "")


def _counts(report: RunReport) -> str:
    attempts = f"{report.attempts} attempt" + ("" if report.attempts == 1 else "s")
    verdicts = f"{report.recomputed} verdict" + ("" if report.recomputed == 1 else "s")
    return f"{attempts}, {report.events} events, {verdicts} recomputed"


def _as_text(report: RunReport, signature: SignatureCheck) -> str:
    from agentbench.core.text import printable

    lines = [headline(report, signature)]
    further = (*report.problems, *signature.problems)[1:]
    lines += [f"  {problem}" for problem in further[:MAX_SHOWN]]
    if len(further) > MAX_SHOWN:
        lines.append(f"  and {len(further) - MAX_SHOWN} more (see --json)")
    if not report.ok or signature.problems:
        lines.append(f"  checked {_counts(report)}")
    lines += _signature_lines(signature)
    lines += [f"  note: {note}" for note in report.notes[:MAX_SHOWN]]
    lines += [f"  not recomputed: {reason}" for reason in report.skipped]
    unsealed = _uncovered(report, signature)
    if unsealed:
        by = "a hash chain or the signature" if signature.ok else "a hash chain"
        lines.append(f"  not covered by {by}: {', '.join(unsealed)}")
    lines.append(f"  head {report.head or 'none'}")
    return "\n".join(printable(line) for line in lines)


def _signature_lines(signature: SignatureCheck) -> list[str]:
    if signature.statement is None:
        return []
    if not signature.ok:
        return [] if signature.problems else [f"  {signature.line()}"]
    predicate = signature.statement.predicate
    lines = [f"  signed by {signature.signer} at {predicate.signed_at}"]
    if signature.reduced_by:
        lines.append(f"  deletion of evidence signed by {signature.reduced_by}")
    if predicate.registration:
        lines.append(f"  {predicate.registration.name} sha256:{predicate.registration.digest.get('sha256', '')}")
    return lines


def _uncovered(report: RunReport, signature: SignatureCheck) -> list[str]:
    """Return the files that nothing covers. Signatures cover themselves and the files of the run that no chain seals."""
    return list(signature.added if signature.ok else report.unsealed)


def _as_json(report: RunReport, signature: SignatureCheck) -> str:
    import json

    problems = [*report.problems, *signature.problems]
    value = {
        "run_dir": str(report.path),
        "ok": not problems,
        "decision": str(signature.state) if report.ok and signature.problems else report.decision,
        "first_problem": str(problems[0]) if problems else None,
        "problems": [
            {"kind": problem.kind, "place": problem.place, "message": problem.message} for problem in problems
        ],
        "notes": list(report.notes),
        "head": report.head,
        "attempts": report.attempts,
        "events": report.events,
        "bytes": report.bytes,
        "recomputed": report.recomputed,
        "not_recomputed": list(report.skipped),
        "not_sealed": list(report.unsealed),
        "signature": signature.as_json(),
    }
    return json.dumps(value, ensure_ascii=True, indent=2)
