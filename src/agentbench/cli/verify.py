"""`ab verify`: verify a run's hash chains, digests and verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import RUN, json_option

if TYPE_CHECKING:
    from agentbench.record.audit import RunReport

MAX_SHOWN = 20
"""Maximum number of problems printed; `--json` has all."""

EPILOG = """\b
Examples:
  ab verify artifacts/runs/2026-…__demo__baseline__none
  ab verify RUN --expect-head sha256:…
  ab verify RUN --json

The first line is VERIFIED, ALTERED with the first difference found, or INCOMPLETE if the run was never closed. Exit
code 0 if VERIFIED, else 1. The output also lists decisions that could not be recomputed and files that no hash chain
covers.
"""


@click.command(epilog=EPILOG)
@click.argument("run", type=RUN)
@click.option("--expect-head", metavar="DIGEST", help="Expected head of the run's hash chain.")
@json_option
def command(run: Path, expect_head: str | None, as_json: bool) -> None:
    """Verify every hash chain, digest and verdict of a run directory."""
    from agentbench.record.audit import verify_run
    from agentbench.record.recompute import recompute

    report = verify_run(run, recompute=recompute, expect_head=expect_head)
    if _may_stop(run, report):
        from agentbench.reports.stopping_audit import audit_stopping

        report = audit_stopping(run, report)
    click.echo(_as_json(report) if as_json else _as_text(report))
    if not report.ok:
        raise click.exceptions.Exit(1)


def _may_stop(run: Path, report: RunReport) -> bool:
    """Return whether the run can have a stopping rule. Loading the statistics takes longer than most audits."""
    try:
        return report.decided is not None or b'"stop_when": {' in (run / "run.json").read_bytes()
    except OSError:
        return False


def headline(report: RunReport) -> str:
    """Return the decision and its main reason."""
    if report.ok:
        return f"VERIFIED: {_counts(report)}"
    first = report.problems[0]
    return f"{report.decision.upper()} {first.kind}: {first.place}: {first.message}"


def _counts(report: RunReport) -> str:
    attempts = f"{report.attempts} attempt" + ("" if report.attempts == 1 else "s")
    verdicts = f"{report.recomputed} verdict" + ("" if report.recomputed == 1 else "s")
    return f"{attempts}, {report.events} events, {verdicts} recomputed"


def _as_text(report: RunReport) -> str:
    from agentbench.core.text import printable

    lines = [headline(report)]
    further = report.problems[1:]
    lines += [f"  {problem}" for problem in further[:MAX_SHOWN]]
    if len(further) > MAX_SHOWN:
        lines.append(f"  and {len(further) - MAX_SHOWN} more (see --json)")
    if not report.ok:
        lines.append(f"  checked {_counts(report)}")
    lines += [f"  note: {note}" for note in report.notes[:MAX_SHOWN]]
    lines += [f"  not recomputed: {reason}" for reason in report.skipped]
    if report.unsealed:
        lines.append(f"  not covered by a hash chain: {', '.join(report.unsealed)}")
    lines.append(f"  head {report.head or 'none'}")
    return "\n".join(printable(line) for line in lines)


def _as_json(report: RunReport) -> str:
    import json

    value = {
        "run_dir": str(report.path),
        "ok": report.ok,
        "decision": report.decision,
        "first_problem": str(report.problems[0]) if report.problems else None,
        "problems": [
            {"kind": problem.kind, "place": problem.place, "message": problem.message} for problem in report.problems
        ],
        "notes": list(report.notes),
        "head": report.head,
        "attempts": report.attempts,
        "events": report.events,
        "bytes": report.bytes,
        "recomputed": report.recomputed,
        "not_recomputed": list(report.skipped),
        "not_sealed": list(report.unsealed),
    }
    return json.dumps(value, ensure_ascii=True, indent=2)
