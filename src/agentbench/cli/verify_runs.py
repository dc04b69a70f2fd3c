"""`ab verify FOLDER --witness LOG`: verify all runs of a folder, and find those that the witness log has and the folder lacks."""

from __future__ import annotations

import json
from pathlib import Path

from agentbench.cli.verify import UNAUTHENTICATED, verify
from agentbench.core.errors import InputError
from agentbench.core.text import printable
from agentbench.record.find_run import RUNS, run_directories
from agentbench.signing.trust import Trust
from agentbench.signing.witness import missing_runs, open_witness, witness_problems
from agentbench.trace.verify import Problem


def verify_runs(
    folder: Path | None, witness: Path, trust: Trust | None, *, signature_required: bool, as_json: bool
) -> tuple[str, bool]:
    """Return the report, and whether every run verifies and none is missing.

    Raises:
        InputError: there are no runs, and the log is empty.
    """
    runs = run_directories(folder or RUNS)
    log = open_witness(witness, trust)
    if not runs and not log.entries and not log.problem:
        msg = f"nothing to verify: no runs in {folder or RUNS}, no entries in the witness log {witness}"
        raise InputError(msg, remedy="give the folder that contains the runs")
    problems = [*missing_runs(log, runs), *witness_problems(log, runs)]
    for run in runs:
        problems += [
            Problem(problem.kind, f"{run.name}/{problem.place}", problem.message)
            for problem in verify(run, trust, signature_required=signature_required).problems
        ]
    notes = [] if trust else [UNAUTHENTICATED]
    if as_json:
        value = {
            "ok": not problems,
            "runs": len(runs),
            "witness_entries": len(log.entries),
            "problems": [
                {"kind": problem.kind, "place": problem.place, "message": problem.message} for problem in problems
            ],
            "notes": notes,
        }
        return json.dumps(value, indent=2), not problems
    entries = "1 entry" if len(log.entries) == 1 else f"{len(log.entries)} entries"
    counts = f"{len(runs)} run{'s' * (len(runs) != 1)}, {entries} in the witness log"
    if problems:
        lines = [f"ALTERED {problems[0]}", *(f"  {problem}" for problem in problems[1:]), f"  checked {counts}"]
    else:
        lines = [f"VERIFIED: {counts}, none missing"]
    lines += [f"  note: {note}" for note in notes]
    return "\n".join(map(printable, lines)), not problems
