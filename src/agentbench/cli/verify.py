"""`ab verify`: verify the hash chains, digests and verdicts of runs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from agentbench.cli.options import FOLDER, RUN_OR_BUNDLE, given_path, json_option
from agentbench.core.dataclass import dataclass

if TYPE_CHECKING:
    from agentbench.record.audit import RunReport
    from agentbench.signing.run_signature import SignatureCheck
    from agentbench.signing.trust import Trust
    from agentbench.trace.verify import Problem

MAX_SHOWN = 20
"""Maximum number of problems printed; `--json` has all."""
UNAUTHENTICATED = "witness entries are not authenticated: pass --signed-by, or set AB_TRUST"

EPILOG = """\b
Examples:
  ab verify artifacts/runs/2026-…__demo__baseline__none
  ab verify artifacts/runs/2026-*
  ab verify RUN --expect-head sha256:…
  ab verify RUN --signed-by trust.yaml
  ab verify artifacts/runs --signed-by trust.yaml --witness ../witness
  ab verify run.tar.zst --signed-by trust.yaml
  ab verify RUN --json
  ab verify study        a pilot: registration, plan, order of attempts, decisions, removals and all runs

The first line is VERIFIED, ALTERED with the first difference found, or INCOMPLETE if the run was never closed. With
--signed-by it can also be NOT SIGNED, NOT TRUSTED or STALE. Exit code 0 if VERIFIED, else 1. The output also lists decisions
that could not be recomputed and files that no hash chain covers. For several runs, each block begins with the run, --json prints
{"ok": …, "runs": […]}, and the exit code is the highest of all.
"""


@click.command(epilog=EPILOG)
@click.argument("runs", metavar="[RUN…]", nargs=-1, type=RUN_OR_BUNDLE)
@click.option(
    "--expect-head",
    metavar="DIGEST",
    help="Expected head of the run's hash chain; for a folder of runs, a head that the witness log had earlier.",
)
@click.option(
    "--signed-by",
    metavar="KEY",
    help="Require a signature: a public key, a file with one, a trust file, or the name of a key.",
)
@click.option("--witness", type=FOLDER, help="Require the runs in this witness log: a folder, or a git repository.")
@json_option
def command(
    runs: tuple[Path, ...], *, expect_head: str | None, signed_by: str | None, witness: Path | None, as_json: bool
) -> None:
    """Verify every hash chain, digest and verdict of run directories, and their signatures; or a whole pilot.

    With --witness, RUN may be a folder of runs and bundles [default: artifacts/runs]: then no run of the log may be missing.
    """
    if not runs and witness is None:
        raise click.UsageError("Give a run, such as `latest`.")
    if expect_head is not None and not re.fullmatch(r"(sha256:)?[0-9a-f]{64}", expect_head):
        msg = f"--expect-head: expected sha256: and 64 hexadecimal digits; got {expect_head!r}."
        raise click.UsageError(msg)
    if expect_head is not None and len(runs) > 1:
        raise click.UsageError("--expect-head takes only one run.")
    check = partial(
        _verify_path,
        trust=_trust(signed_by),
        signature_required=signed_by is not None,
        expect_head=expect_head,
        witness=witness,
        as_json=as_json,
    )
    if len(runs) > 1:
        code = _verify_each(runs, check, as_json=as_json)
    else:
        text, ok = check(runs[0] if runs else None)
        click.echo(text)
        code = 0 if ok else 1
    if code:
        raise click.exceptions.Exit(code)


def _verify_each(runs: Sequence[Path], check: Callable[[Path], tuple[str, bool]], *, as_json: bool) -> int:
    """Verify several runs and print one block for each, or one document. Return the highest of their exit codes."""
    import json

    from agentbench.core.errors import AgentBenchError
    from agentbench.core.text import printable

    code = 0
    documents = []
    for run in runs:
        name = str(given_path(run))
        try:
            text, ok = check(run)
            code = max(code, 0 if ok else 1)
        except AgentBenchError as error:
            document = {"run_dir": name, "ok": False, "error": error.message}
            text = json.dumps(document) if as_json else f"ERROR {printable(error.message)}"
            code = max(code, error.exit_code)
        if as_json:
            documents.append(json.loads(text))
        else:
            click.echo(f"{printable(name)}: {text}")
    if as_json:
        click.echo(json.dumps({"ok": not code, "runs": documents}, indent=2))
    return code


def _verify_path(
    path: Path | None,
    *,
    trust: Trust | None,
    signature_required: bool,
    expect_head: str | None,
    witness: Path | None,
    as_json: bool,
) -> tuple[str, bool]:
    """Verify a run, a pilot or with `witness` a folder of runs. Return the text to print, and whether it is verified."""
    from agentbench.core.errors import InputError
    from agentbench.record.find_run import run_directories

    if path is not None and _is_pilot(path):
        from agentbench.cli.verify_pilot import verify_pilot_folder

        if witness is not None or expect_head is not None:
            msg = f"--expect-head and --witness are for runs; those of this pilot are in {path / 'runs'}."
            raise click.UsageError(msg)
        _refuse_draft(path)
        return verify_pilot_folder(path, trust, signature_required=signature_required, as_json=as_json)
    if witness is not None and (path is None or _is_folder_of_runs(path)):
        from agentbench.cli.verify_runs import verify_runs

        return verify_runs(
            path, witness, trust, signature_required=signature_required, expect_head=expect_head, as_json=as_json
        )
    if path is not None and _is_folder_of_runs(path) and run_directories(path):
        raise InputError(
            f"{path} is a folder of runs", remedy="give the runs in it, or --witness LOG to verify all of them"
        )
    verification = verify(
        cast("Path", path), trust, signature_required=signature_required, expect_head=expect_head, witness=witness
    )
    return _as_json(verification) if as_json else _as_text(verification), not verification.problems


@dataclass(frozen=True, slots=True)
class Verification:
    """A run compared with itself, with its signature and with the witness log."""

    report: RunReport
    signature: SignatureCheck
    witness: tuple[Problem, ...] = ()

    @property
    def problems(self) -> tuple[Problem, ...]:
        return (*self.report.problems, *self.signature.problems, *self.witness)

    @property
    def decision(self) -> str:
        if not self.report.ok:
            return self.report.decision
        return str(self.signature.state) if self.signature.problems else "altered" if self.witness else "verified"

    def headline(self) -> str:
        """Return the decision and its main reason."""
        if self.report.ok and self.problems:
            return f"{self.decision.upper()} {self.problems[0]}"
        signer = f", signed by {self.signature.signer}" if self.report.ok and self.signature.ok else ""
        return headline(self.report) + signer


def headline(report: RunReport) -> str:
    """Return the decision about a run without its signature, and the main reason."""
    return f"VERIFIED: {_counts(report)}" if report.ok else f"{report.decision.upper()} {report.problems[0]}"


def verify(
    run: Path,
    trust: Trust | None,
    *,
    signature_required: bool,
    expect_head: str | None = None,
    witness: Path | None = None,
) -> Verification:
    """Verify a run. If no signature is required, only one that does not match the run is a problem."""
    from dataclasses import replace

    from agentbench.reports.run_audit import audit_run
    from agentbench.signing.run_signature import State, verify_signature

    report = _with_store_note(audit_run(run, expect_head=expect_head))
    signature = verify_signature(run, trust)
    if not signature_required and signature.state is not State.ALTERED:
        signature = replace(signature, problems=())
    if witness is None:
        return Verification(report, signature)
    from agentbench.signing.witness_log import open_witness, witness_problems
    from agentbench.trace.verify import Problem

    if trust is None:
        report = replace(report, notes=(*report.notes, UNAUTHENTICATED))
    log = open_witness(witness, trust)
    problems = [Problem(item.kind, given_path(run).name, item.message) for item in witness_problems(log, run)]
    return Verification(report, signature, (*filter(None, [log.problem]), *problems))


def _trust(signed_by: str | None) -> Trust | None:
    """Return the trust that --signed-by names, else that of reports. None if there is none."""
    from agentbench.signing.keys import keys_folder
    from agentbench.signing.trust import default_trust, read_trust

    return default_trust() if signed_by is None else read_trust(signed_by, keys_folder())


def _is_run(folder: Path) -> bool:
    """Return whether a folder has a file of a run, also beside files of a pilot."""
    return any(os.path.lexists(folder / name) for name in ("run.json", "events.jsonl", "attempts.jsonl"))


def _is_pilot(folder: Path) -> bool:
    return (folder / "pilot.yaml").is_file() and not _is_run(folder)


def _refuse_draft(pilot: Path) -> None:
    """
    Raises:
        InputError: the pilot was never frozen, and has nothing that only a frozen pilot has.
    """
    from agentbench.core.errors import InputError
    from agentbench.pilot.folder import DECISIONS, REGISTRATION, REGISTRATIONS, REMOVALS, RUNS

    if not any(os.path.lexists(pilot / name) for name in (REGISTRATION, REGISTRATIONS, DECISIONS, REMOVALS, RUNS)):
        raise InputError(f"{pilot} is not frozen: there is nothing to verify", remedy="see `ab pilot status`")


def _is_folder_of_runs(folder: Path) -> bool:
    """Return whether this is a folder that can contain runs. All of them may have been removed."""
    return folder.is_dir() and not _is_run(folder)


def _with_store_note(report: RunReport) -> RunReport:
    """Add a note about the restricted store, if the run has one."""
    import dataclasses

    from agentbench.core.errors import AgentBenchError
    from agentbench.execution.originals import store_note

    try:
        note = store_note(report.path)
    except AgentBenchError:
        return report  # `run.json` cannot be read, which the report says.
    return dataclasses.replace(report, notes=(*report.notes, note)) if note else report


def _counts(report: RunReport) -> str:
    attempts = f"{report.attempts} attempt" + ("" if report.attempts == 1 else "s")
    verdicts = f"{report.recomputed} verdict" + ("" if report.recomputed == 1 else "s")
    return f"{attempts}, {report.events} events, {verdicts} recomputed"


def _as_text(verification: Verification) -> str:
    from agentbench.core.text import printable

    report, signature = verification.report, verification.signature
    lines = [verification.headline()]
    further = verification.problems[1:]
    lines += [f"  {problem}" for problem in further[:MAX_SHOWN]]
    if len(further) > MAX_SHOWN:
        lines.append(f"  and {len(further) - MAX_SHOWN} more (see --json)")
    if verification.problems:
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
        return [] if signature.problems else [f"  {signature.line()}; check it with --signed-by KEY"]
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


def _as_json(verification: Verification) -> str:
    import json

    report, problems = verification.report, verification.problems
    value = {
        "run_dir": str(given_path(report.path)),
        "ok": not problems,
        "decision": verification.decision,
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
        "signature": verification.signature.as_json(),
    }
    return json.dumps(value, ensure_ascii=True, indent=2)
