"""`ab verify FOLDER --witness LOG`: verify all runs of a folder, and find those that only the witness log has."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

from agentbench.cli.settings import runs_folder
from agentbench.cli.verify import UNAUTHENTICATED, verify
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentBenchError, InputError
from agentbench.core.text import printable
from agentbench.record.bundle import open_bundle
from agentbench.record.find_run import bundles, run_directories, run_id
from agentbench.signing.trust import Trust
from agentbench.signing.witness_log import WitnessLog, cut_off, missing_runs, open_witness, witness_problems
from agentbench.trace.verify import Problem


@dataclass(slots=True)
class _Folder:
    """The runs of a folder, verified one by one. A copy of a run is verified too, and counted once."""

    log: WitnessLog
    trust: Trust | None
    signature_required: bool
    names: dict[str, str] = field(default_factory=dict)
    """Name of each run by its id."""
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def verify(self, run: Path, name: str) -> None:
        # A run without an id is not a copy of another.
        first = self.names.setdefault(run_id(run) or name, name)
        if first != name:
            self.notes.append(f"{name} is a copy of {first} and counts once")
        problems = [*witness_problems(self.log, run), *self._own_problems(run)]
        self.problems += [Problem(item.kind, f"{name}/{item.place}".rstrip("/"), item.message) for item in problems]

    def verify_bundle(self, path: Path) -> None:
        try:
            with open_bundle(path) as run:
                self.verify(run, path.name)
        except AgentBenchError as error:
            self.problems.append(Problem("changed", path.name, error.message))

    def _own_problems(self, run: Path) -> Sequence[Problem]:
        try:
            return verify(run, self.trust, signature_required=self.signature_required).problems
        except AgentBenchError as error:
            return (Problem("changed", "", error.message),)


def verify_runs(
    folder: Path | None,
    witness: Path,
    trust: Trust | None,
    *,
    signature_required: bool,
    expect_head: str | None,
    as_json: bool,
) -> tuple[str, bool]:
    """Return the report, and whether every run verifies and none is missing.

    `expect_head` is a head of the witness log that was noted earlier.

    Raises:
        InputError: there are no runs, and the log is empty.
    """
    folder = folder or runs_folder()
    log = open_witness(witness, trust)
    checked = _Folder(log, trust, signature_required)
    for path in run_directories(folder):
        checked.verify(path, path.name)
    for path in bundles(folder):
        checked.verify_bundle(path)
    if not any((checked.names, checked.problems, log.entries, log.problem, expect_head)):
        msg = f"nothing to verify: no runs in {folder}, no entries in the witness log {witness}"
        raise InputError(msg, remedy="give the folder that contains the runs")
    problems = [
        *filter(None, [log.problem]),
        *(cut_off(log, expect_head) if expect_head else ()),
        *missing_runs(log, set(checked.names)),
        *checked.problems,
    ]
    runs = list(checked.names)
    notes = ([] if trust else [UNAUTHENTICATED]) + checked.notes
    if as_json:
        value = {
            "ok": not problems,
            "runs": len(runs),
            "witness_entries": len(log.entries),
            "witness_head": log.head,
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
    lines.append(f"  head of the witness log {log.head}")
    return "\n".join(map(printable, lines)), not problems
