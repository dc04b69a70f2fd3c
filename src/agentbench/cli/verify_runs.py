"""`ab verify FOLDER --witness LOG`: verify all runs of a folder, and find those that the witness log has and the folder lacks."""

from __future__ import annotations

import json
from pathlib import Path

from agentbench.cli.verify import verify
from agentbench.core.text import printable
from agentbench.record.find_run import RUNS, run_directories
from agentbench.signing.trust import Trust
from agentbench.signing.witness import missing_runs, open_witness, witness_problems
from agentbench.trace.verify import Problem


def verify_runs(folder: Path | None, witness: Path, trust: Trust | None, *, as_json: bool) -> tuple[str, bool]:
    """Return the report, and whether every run verifies and none is missing."""
    runs = run_directories(folder or RUNS)
    log = open_witness(witness, trust)
    problems = [*missing_runs(log, runs), *witness_problems(log, runs)]
    for run in runs:
        problems += [
            Problem(problem.kind, f"{run.name}/{problem.place}", problem.message)
            for problem in verify(run, trust).problems
        ]
    if as_json:
        value = {
            "ok": not problems,
            "runs": len(runs),
            "witness_entries": len(log.entries),
            "problems": [
                {"kind": problem.kind, "place": problem.place, "message": problem.message} for problem in problems
            ],
        }
        return json.dumps(value, indent=2), not problems
    counts = f"{len(runs)} run{'s' * (len(runs) != 1)}, {len(log.entries)} entries in the witness log"
    if not problems:
        return f"VERIFIED: {counts}, none missing", True
    lines = [f"ALTERED {problems[0]}", *(f"  {problem}" for problem in problems[1:]), f"  checked {counts}"]
    return "\n".join(map(printable, lines)), False
