"""`ab retain RUN`: keep no more than minimal evidence of a run."""

from __future__ import annotations

from pathlib import Path

import click

EPILOG = """\b
Examples:
  ab retain artifacts/runs/RUN                       what would go, and nothing happens
  ab retain artifacts/runs/RUN --approved-by eve --reason "older than a year"

Kept: records, chains, manifests, the graded patches and the digests of everything else; `ab verify` and comparisons go on to work.
Gone for good: blobs, logs, the patches of single steps, what `ab replay` needs. Only a run that verifies is reduced.
"""


@click.command(epilog=EPILOG)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--approved-by", help="Who approved it; kept in the run's chain.")
@click.option("--reason", help="Why; kept in the run's chain.")
def command(run: Path, approved_by: str | None, reason: str | None) -> None:
    """Go from full to minimal evidence of a run: explicit, approved and logged."""
    from agentbench.core.errors import InputError
    from agentbench.record.audit import verify_run
    from agentbench.record.recompute import recompute
    from agentbench.record.retention import plan_reduction, reduce_run

    report = verify_run(run, recompute=recompute)
    if not report.ok:
        msg = f"{run} does not verify: {report.problems[0]}"
        raise InputError(msg, remedy="`ab verify` says what is wrong with it")
    if approved_by is None and reason is None:
        goes = plan_reduction(run)
        click.echo(f"{goes.files} files, {goes.bytes} bytes would go; say --approved-by and --reason to do it")
        return
    if not (approved_by or "").strip() or not (reason or "").strip():
        raise click.UsageError("Give both --approved-by and --reason.")
    gone = reduce_run(run, approved_by=str(approved_by).strip(), reason=str(reason).strip())
    click.echo(f"{gone.files} files, {gone.bytes} bytes removed; it is in the run's chain")
