"""Leaderboard of signed runs: accepts only runs that verify, are signed by a trusted key, and have the same contracts.

`make_leaderboard` decides about every run; `as_markdown`, `as_csv`, `as_json` and `html/leaderboard.py` render the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agentbench.core.canonical import Json, digest
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentBenchError
from agentbench.reports.compare import CompareReport, MethodLine, compare_methods, decision, list_deviations
from agentbench.reports.escape import code, csv_text, markdown_table, plain
from agentbench.reports.json_parts import interval_json
from agentbench.reports.number_format import percent, plural, share_interval
from agentbench.reports.run_audit import audit_run
from agentbench.reports.sources import Side, open_side
from agentbench.signing.run_signature import SignatureCheck, verify_signature
from agentbench.signing.statement import Predicate
from agentbench.signing.trust import Trust
from agentbench.statistics.rates import task_rate
from agentbench.statistics.trials import Rate

HEAD = ("rank", "method", "rate", "95% CI", "passed", "cost per attempt", "signed by", "harness", "run")
NAMES = frozenset({"method", "signed by", "harness", "run"})
"""Columns with text that others chose."""
COLUMNS = (
    "rank", "method", "rate", "low", "high", "passed", "attempts", "cost_per_attempt", "signed_by", "origin", "differences",
    "deviations",
)  # fmt: skip
"""Columns of the CSV form."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A run that was given for the leaderboard."""

    path: Path
    given: str
    """The path as the user gave it; differs for a bundle."""
    problem: str = ""
    """Why it could not be opened."""


@dataclass(frozen=True, slots=True)
class Accepted:
    side: Side
    signer: str
    predicate: Predicate

    @property
    def contracts(self) -> str:
        """Return a digest that is equal for runs with the same tasks and contracts."""
        return digest(dict(self.predicate.contracts))


@dataclass(frozen=True, slots=True)
class Rejected:
    given: str
    why: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the leaderboard."""

    rank: int
    line: MethodLine
    accepted: Accepted


@dataclass(frozen=True, slots=True)
class Leaderboard:
    rate: Rate
    entries: tuple[Entry, ...]
    rejected: tuple[Rejected, ...]
    comparison: CompareReport | None
    """None with fewer than two accepted runs."""
    deviations: tuple[str, ...]
    """Protocol deviations of accepted runs."""

    @property
    def differences(self) -> tuple[str, ...]:
        """Return differences between the conditions of accepted runs, such as budget, hints or configuration class."""
        return self.comparison.differences if self.comparison else ()

    def headline(self) -> str:
        """Return the first line: the result, the number of differences and deviations, and how many runs were rejected."""
        notes = [plural(len(self.differences), "difference") + " between runs"] if self.differences else []
        notes += [plural(len(self.deviations), "protocol deviation")] if self.deviations else []
        notes += [f"{plural(len(self.rejected), 'run')} rejected"] if self.rejected else []
        return ". ".join([self._result(), *notes]) + "."

    def _result(self) -> str:
        if self.comparison is not None:
            return decision(self.comparison)
        if not self.entries:
            return "EMPTY: no run was accepted"
        line = self.entries[0].line
        return f"ONE RUN: {line.name} with {self.rate} rate {percent(line.share)}"


def make_leaderboard(candidates: Sequence[Candidate], trust: Trust, rate: Rate) -> Leaderboard:
    """Verify every run and its signature, and rank the accepted ones.

    A run that cannot be read or is given twice is rejected and does not end the others.
    """
    accepted: list[Accepted] = []
    rejected: list[Rejected] = []
    for candidate in candidates:
        result = _examine(candidate, trust)
        if isinstance(result, Rejected):
            rejected.append(result)
        else:
            accepted.append(result)
    accepted, copies = _without_copies(accepted)
    accepted, others = _same_contracts(accepted)
    by_origin = {run.side.origin: run for run in accepted}
    sides = [run.side for run in accepted]
    comparison = compare_methods(sides, rate=rate) if len(sides) > 1 else None
    lines = comparison.methods if comparison else [_single(side, rate) for side in sides]
    shares = [line.share for line in lines]
    entries = tuple(
        Entry(1 + sum(share > line.share for share in shares), line, by_origin[line.side.origin]) for line in lines
    )
    deviations = comparison.deviations if comparison else list_deviations(sides, [line.name for line in lines])
    return Leaderboard(rate, entries, (*rejected, *copies, *others), comparison, deviations)


def _examine(candidate: Candidate, trust: Trust) -> Accepted | Rejected:
    if candidate.problem:
        return Rejected(candidate.given, candidate.problem)
    try:
        return _examine_run(candidate, trust)
    except AgentBenchError as error:
        return Rejected(candidate.given, error.message)


def _examine_run(candidate: Candidate, trust: Trust) -> Accepted | Rejected:
    report = audit_run(candidate.path)
    if not report.ok:
        return Rejected(candidate.given, f"does not verify: {report.problems[0]}")
    check: SignatureCheck = verify_signature(candidate.path, trust)
    if not check.ok or check.statement is None:
        return Rejected(candidate.given, f"{check.state}: {check.problems[0].message}")
    side = replace(open_side(str(candidate.path)), origin=candidate.given)
    if not side.trials:
        return Rejected(candidate.given, "has no finished attempts")
    return Accepted(side, check.signer, check.statement.predicate)


def _without_copies(accepted: Sequence[Accepted]) -> tuple[list[Accepted], list[Rejected]]:
    """Keep the first of several copies of a run. A run directory and a bundle of it are the same run."""
    kept: dict[str, Accepted] = {}
    copies = []
    for run in accepted:
        first = kept.setdefault(run.predicate.run_id, run)
        if first is not run:
            copies.append(Rejected(run.side.origin, f"the same run as {first.side.origin}"))
    return list(kept.values()), copies


def _same_contracts(accepted: Sequence[Accepted]) -> tuple[list[Accepted], list[Rejected]]:
    """Keep the runs with the tasks and contracts that most runs have; of equally many, those of the first run."""
    if not accepted:
        return [], []
    wanted = Counter(run.contracts for run in accepted).most_common(1)[0][0]
    reference = next(run for run in accepted if run.contracts == wanted)
    others = [
        Rejected(run.side.origin, f"other contracts than {reference.side.origin}: {_difference(run, reference)}")
        for run in accepted
        if run.contracts != wanted
    ]
    return [run for run in accepted if run.contracts == wanted], others


def _difference(run: Accepted, reference: Accepted) -> str:
    mine, other = run.predicate.contracts, reference.predicate.contracts
    tasks = sorted(task for task in mine.keys() | other.keys() if mine.get(task) != other.get(task))
    more = f" and {len(tasks) - 3} more" if len(tasks) > 3 else ""
    return f"{plural(len(tasks), 'task')} ({', '.join(tasks[:3])}{more})"


def _single(side: Side, rate: Rate) -> MethodLine:
    return MethodLine(side, plain(side.name, 60), task_rate(side.trials, rate), None)


# --- rendering --------------------------------------------------------------------------------------------------------


def cells(entry: Entry) -> tuple[str, ...]:
    """Return the cells of one line, in the order of `HEAD`, as plain text."""
    rate = entry.line.rate
    run = entry.accepted.side.run
    return (
        str(entry.rank),
        entry.line.name,
        percent(rate.share),
        share_interval(rate.interval),
        f"{rate.passed} of {rate.attempts}",
        entry.line.cost_text,
        entry.accepted.signer,
        entry.accepted.predicate.harness_version,
        run.path.name if run else "",
    )


def named_cells(entry: Entry) -> Iterator[tuple[str, str]]:
    return zip(HEAD, cells(entry), strict=True)


def as_markdown(board: Leaderboard) -> str:
    lines = [f"# {plain(board.headline(), 2000)}", ""]
    if board.entries:
        rows = [[code(cell) if name in NAMES else cell for name, cell in named_cells(entry)] for entry in board.entries]
        lines += [*markdown_table(HEAD, rows), ""]
        lines += [explanation(board), ""]
    sections = {
        "Differences between runs": [code(text) for text in board.differences],
        "Protocol deviations": [code(text) for text in board.deviations],
        "Rejected runs": [f"{code(run.given)}: {code(run.why)}" for run in board.rejected],
    }
    for title, items in sections.items():
        lines += [f"## {title}", "", *(f"- {item}" for item in items), ""] if items else []
    return "\n".join(lines).rstrip() + "\n"


def explanation(board: Leaderboard) -> str:
    """Return what all runs of the table have in common."""
    tasks = len(board.entries[0].accepted.predicate.contracts)
    text = (
        f"Every run was verified, signed by a trusted key, and made with the same contracts of {plural(tasks, 'task')}."
    )
    if any(entry.line.rate.differs_from_attempts for entry in board.entries):
        text += " Rates are means over tasks: every task has the same weight, however many attempts it has."
    if board.comparison and board.comparison.cost_basis:
        text += f" Costs are {board.comparison.cost_basis}."
    left_out = board.comparison.left_out if board.comparison else ()
    if left_out:
        text += f" {plural(len(left_out), 'task')} without a counted attempt from every method left out."
    return text


def as_csv(board: Leaderboard) -> str:
    rows: list[Mapping[str, str | float | int | None]] = []
    for entry in board.entries:
        rate = entry.line.rate
        rows.append(
            {
                "rank": entry.rank,
                "method": entry.line.name,
                "rate": rate.share,
                "low": rate.interval.low if rate.interval else None,
                "high": rate.interval.high if rate.interval else None,
                "passed": rate.passed,
                "attempts": rate.attempts,
                "cost_per_attempt": entry.line.cost,
                "signed_by": entry.accepted.signer,
                "origin": entry.accepted.side.origin,
                "differences": "; ".join(board.differences),
                "deviations": "; ".join(board.deviations),
            }
        )
    return csv_text(COLUMNS, rows)


def as_json(board: Leaderboard) -> dict[str, Json]:
    return {
        "decision": board.headline(),
        "rate": board.rate,
        "entries": [
            {
                "rank": entry.rank,
                "method": entry.line.name,
                "share": entry.line.rate.share,
                "interval": interval_json(entry.line.rate.interval),
                "passed": entry.line.rate.passed,
                "attempts": entry.line.rate.attempts,
                "cost_per_attempt": entry.line.cost,
                "signed_by": entry.accepted.signer,
                "signed_at": entry.accepted.predicate.signed_at,
                "head": entry.accepted.predicate.chain.head,
                "harness_version": entry.accepted.predicate.harness_version,
                "origin": entry.accepted.side.origin,
            }
            for entry in board.entries
        ],
        "best_set": [board.comparison.methods[index].name for index in board.comparison.best]
        if board.comparison
        else [],
        "differences": list(board.differences),
        "deviations": list(board.deviations),
        "rejected": [{"origin": run.given, "why": run.why} for run in board.rejected],
    }
