"""`ab retain`: delete bulky evidence from a finished run."""

from __future__ import annotations

from pathlib import Path

import click

from agentbench.cli.options import RUN

EPILOG = """\b
Examples:
  ab retain artifacts/runs/RUN
  ab retain artifacts/runs/RUN --approved-by eve --reason "older than a year"

Without --approved-by and --reason this only shows what would be deleted. Kept: records, hash chains, manifests, graded
patches and the digests of everything else, so `ab verify` and comparisons still work. Deleted: blobs, logs, patches of
single steps, kept workspaces and what `ab replay` needs. Only a run that verifies can be reduced.
"""


@click.command(epilog=EPILOG)
@click.argument("run", type=RUN)
@click.option("--approved-by", help="Name of the approver, recorded in the run's log.")
@click.option("--reason", help="Reason, recorded in the run's log.")
def command(run: Path, approved_by: str | None, reason: str | None) -> None:
    """Delete bulky evidence from a finished run. The deletion is logged."""
    from agentbench.core.errors import InputError
    from agentbench.record.audit import verify_run
    from agentbench.record.recompute import recompute
    from agentbench.record.retention import plan_reduction, reduce_run

    report = verify_run(run, recompute=recompute)
    if not report.ok:
        raise InputError(f"{run} does not verify: {report.problems[0]}", remedy="run `ab verify` for details")
    if approved_by is None and reason is None:
        planned = plan_reduction(run)
        click.echo(
            f"Would delete {planned.files} files ({planned.bytes} bytes). Delete with --approved-by and --reason."
        )
        return
    if not (approved_by or "").strip() or not (reason or "").strip():
        raise click.UsageError("Give both --approved-by and --reason.")
    deleted = reduce_run(run, approved_by=str(approved_by).strip(), reason=str(reason).strip())
    click.echo(f"Deleted {deleted.files} files ({deleted.bytes} bytes).")
