"""`ab retain`: delete bulky evidence from finished runs, one by one or by a policy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from agentbench.cli.options import FILE, RUN, json_option
from agentbench.core.dataclass import dataclass

if TYPE_CHECKING:
    from agentbench.record.retention import Reduction
    from agentbench.record.retention_policy import RetentionPolicy
    from agentbench.signing.keys import SigningKey

EPILOG = """\b
Examples:
  ab retain artifacts/runs/RUN
  ab retain artifacts/runs/RUN --approved-by eve --reason "older than a year"
  ab retain --policy retention.yaml
  ab retain artifacts/runs --policy retention.yaml --apply --approved-by eve

Without --approved-by this only shows what would be deleted. Kept: records, hash chains, manifests, graded patches and the
digests of everything else, so `ab verify` and comparisons still work. Deleted: blobs, logs, patches of single steps, kept
workspaces and what `ab replay` needs. Only a run that verifies can be reduced. Each deletion is logged in the chain of its run
with approver and reason. A signed run needs --sign, so that the deletion is signed too.
"""


@click.command(epilog=EPILOG)
@click.argument("runs", nargs=-1, type=RUN)
@click.option("--approved-by", help="Name of the approver, recorded in the run's log.")
@click.option("--reason", help="Reason, recorded in the run's log [default with --policy: the rule and the file].")
@click.option("--policy", "policy_file", type=FILE, help="Reduce runs that are older than this file allows.")
@click.option("--apply", is_flag=True, help="Delete what the policy says.")
@click.option("--sign", "key", metavar="KEY", help="Key that signs the deletion of evidence of signed runs.")
@json_option
def command(
    runs: tuple[Path, ...],
    *,
    approved_by: str | None,
    reason: str | None,
    policy_file: Path | None,
    apply: bool,
    key: str | None,
    as_json: bool,
) -> None:
    """Delete bulky evidence from finished runs. Each deletion is logged in the chain of its run."""
    approver, given = (approved_by or "").strip(), (reason or "").strip()
    wanted = apply if policy_file else approved_by is not None or reason is not None
    if apply and not policy_file:
        raise click.UsageError("--apply needs --policy.")
    if wanted and (not approver or not (given or policy_file)):
        raise click.UsageError("Give --approved-by." if policy_file else "Give both --approved-by and --reason.")
    if not runs and not policy_file:
        raise click.UsageError("Give a run, or a policy.")
    plans = plan(_run_directories(runs), policy_file, given)
    if wanted:
        from agentbench.cli.keys import signing_key

        signer = signing_key(key) if key is not None else None
        _require_key(plans, signer)
        plans = [carry_out(step, approver, signer) for step in plans]
    if as_json:
        click.echo(json.dumps({"applied": wanted, "runs": [step.as_json() for step in plans]}, indent=2))
    else:
        _print(plans, wanted=wanted, policy=policy_file is not None)
    if any(step.action == "refused" for step in plans):
        raise click.exceptions.Exit(1)


@dataclass(frozen=True, slots=True)
class Step:
    """The planned or finished action on one run, with its reason."""

    run: Path
    action: Literal["keep", "reduce", "minimal", "refused", "reduced"]
    """`minimal`: nothing is left to delete. `refused`: it has not ended or does not verify."""
    why: str
    reduction: Reduction | None = None

    def as_json(self) -> dict[str, object]:
        return {
            "run_dir": str(self.run),
            "action": self.action,
            "why": self.why,
            "files": self.reduction.files if self.reduction else 0,
            "bytes": self.reduction.bytes if self.reduction else 0,
        }

    def line(self) -> str:
        size = f" {self.reduction.files} files ({self.reduction.bytes} bytes)" if self.reduction else ""
        return f"{self.action}{size}: {self.why}" if self.why else f"{self.action}{size}"


def plan(runs: Sequence[Path], policy_file: Path | None, reason: str) -> list[Step]:
    """Decide about every run. Without a policy, every run is to be reduced."""
    from agentbench.record.retention_policy import read_policy

    policy, name = read_policy(policy_file) if policy_file else (None, "")
    return [_plan_run(run, policy, name, reason) for run in runs]


def _plan_run(run: Path, policy: RetentionPolicy | None, policy_name: str, reason: str) -> Step:
    from datetime import UTC, datetime

    from agentbench.core.errors import InputError
    from agentbench.record.retention import closing_time, plan_reduction
    from agentbench.record.retention_policy import decide_retention
    from agentbench.record.run_directory import RunDirectory
    from agentbench.reports.run_audit import audit_run

    if policy is not None:
        closed_at = closing_time(run)
        if closed_at is None:
            return Step(run, "keep", "the run has not ended")
        decision = decide_retention(policy, RunDirectory.open(run).meta, closed_at, datetime.now(UTC))
        if not decision.reduce:
            return Step(run, "keep", decision.why)
        reason = reason or f"{decision.why} ({policy_name})"
    report = audit_run(run)
    if not report.ok:
        message = f"{run} does not verify: {report.problems[0]}"
        if policy is None:
            raise InputError(message, remedy="run `ab verify` for details")
        return Step(run, "refused", message)
    planned = plan_reduction(run)
    return Step(run, "reduce" if planned.files else "minimal", reason, planned)


def carry_out(step: Step, approver: str, key: SigningKey | None) -> Step:
    """Reduce a run if its plan says so, and sign the deletion if the run is signed."""
    from agentbench.record.retention import reduce_run
    from agentbench.reports.run_audit import audit_run
    from agentbench.signing.run_signature import State, check_signature, sign_run

    if step.action not in {"reduce", "minimal"}:
        return step
    done = reduce_run(step.run, approved_by=approver, reason=step.why)
    if key is not None and check_signature(step.run, None).state is State.REDUCED:
        sign_run(step.run, key, audit=audit_run)
    return Step(step.run, "reduced", step.why, done) if done.files else Step(step.run, "minimal", _minimal(done), done)


def _minimal(done: Reduction) -> str:
    if done.earlier is None:
        return "the run has only minimal evidence"
    earlier = done.earlier
    return f"evidence was deleted at {earlier.reduced_at}, approved by {earlier.approved_by} ({earlier.reason})"


def _require_key(plans: Sequence[Step], key: SigningKey | None) -> None:
    from agentbench.core.errors import InputError
    from agentbench.record.naming import SIGNATURE

    signed = [step.run for step in plans if step.action == "reduce" and (step.run / SIGNATURE).is_file()]
    if signed and key is None:
        more = f" (and {len(signed) - 1} more)" if len(signed) > 1 else ""
        msg = f"{signed[0]}{more} is signed, so the deletion must be signed too"
        raise InputError(msg, remedy="pass --sign KEY; any key that verifiers trust will do")


def _run_directories(given: Sequence[Path]) -> list[Path]:
    """Replace folders of runs by the runs in them; without any, take all runs of the default folder."""
    from agentbench.cli.settings import runs_folder
    from agentbench.core.errors import InputError
    from agentbench.record.find_run import run_directories
    from agentbench.record.naming import RUN_JSON

    runs: list[Path] = []
    for folder in given or (runs_folder(),):
        single = (folder / RUN_JSON).exists() or not folder.is_dir()
        folders = [folder] if single else run_directories(folder)
        if not folders:
            raise InputError(f"no runs in {folder}")
        runs += folders
    return runs


def _print(plans: Sequence[Step], *, wanted: bool, policy: bool) -> None:
    if len(plans) == 1 and not policy:
        click.echo(_sentence(plans[0], wanted=wanted))
        return
    for step in plans:
        click.echo(f"{step.run}: {step.line()}")
    files = sum(step.reduction.files for step in plans if step.reduction)
    size = sum(step.reduction.bytes for step in plans if step.reduction)
    verb = "Deleted" if wanted else "Would delete"
    later = (
        ""
        if wanted
        else " Delete with --apply and --approved-by."
        if policy
        else " Delete with --approved-by and --reason."
    )
    click.echo(f"{verb} {files} files ({size} bytes) of {len(plans)} runs.{later}")


def _sentence(step: Step, *, wanted: bool) -> str:
    size = f"{step.reduction.files} files ({step.reduction.bytes} bytes)" if step.reduction else "nothing"
    if step.action == "minimal" and wanted:
        return f"Nothing to delete, and nothing logged: {step.why}."
    return f"Deleted {size}." if wanted else f"Would delete {size}. Delete with --approved-by and --reason."
