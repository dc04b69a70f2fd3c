"""Two methods on the same tasks: the decision first, then whether they may be compared at all, then the numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agentbench.core.canonical import Json
from agentbench.core.errors import InputError
from agentbench.grading.headline import headline
from agentbench.record.schema import AttemptRecord
from agentbench.reports.escape import Cell, code, csv_text, link, markdown_table
from agentbench.reports.figures import percent, plural, point_interval, points, probability
from agentbench.reports.sources import Side
from agentbench.reports.summary import interval_json
from agentbench.statistics.comparability import Comparability, hold_against, named
from agentbench.statistics.paired import ALPHA, Comparison, PairedTask, Pairing, compare, pair
from agentbench.statistics.trials import Rate, Trial


@dataclass(frozen=True, slots=True)
class Flip:
    """A task the two sides did not do equally well."""

    task: str
    mean_a: float
    mean_b: float
    why_a: tuple[str, ...]
    why_b: tuple[str, ...]
    files_a: tuple[str, ...]
    files_b: tuple[str, ...]

    @property
    def gain(self) -> float:
        return self.mean_b - self.mean_a


@dataclass(frozen=True, slots=True)
class PairedReport:
    a: Side
    b: Side
    comparability: Comparability
    comparison: Comparison
    other: Comparison | None
    """The same under the other rate; None when nothing can be paired under it."""
    flips: tuple[Flip, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """What must be said beside every number."""
        held = self.comparability
        labels = []
        if held.across_versions:
            labels.append("ACROSS CONTRACT VERSIONS")
        if held.deviations or held.differences:
            labels.append("PROVISIONAL")
        return tuple(labels)


def compare_sides(a: Side, b: Side, *, rate: Rate = Rate.CONTRACT, across_versions: bool = False) -> PairedReport:
    """Hold two sides against each other.

    Raises:
        InputError: no task can be compared, or the contracts differ and that was not asked for.
    """
    held = hold_against(a.identities, b.identities)
    if held.across_versions and not across_versions:
        msg = f"the contract of {plural(len(held.across_versions), 'task')} differs between the two runs: {named(held.across_versions)}"
        raise InputError(
            msg, remedy="results are per contract version; --across-versions compares them anyway and says so"
        )
    pairing = pair(a.trials, b.trials, rate)
    comparison = compare(pairing, rate)
    if comparison is None:
        raise InputError(_nothing_in_common(pairing, a, b))
    other_rate = Rate.ACCEPTANCE if rate is Rate.CONTRACT else Rate.CONTRACT
    return PairedReport(
        a=a,
        b=b,
        comparability=held,
        comparison=comparison,
        other=compare(pair(a.trials, b.trials, other_rate), other_rate),
        flips=tuple(_flip(one, a, b) for one in comparison.pairing.pairs if one.difference),
    )


def _nothing_in_common(pairing: Pairing, a: Side, b: Side) -> str:
    if pairing.uncounted:
        return (
            f"nothing to compare: at each of the {plural(len(pairing.uncounted), 'common task')} one side has only invalid runs "
            f"({named(pairing.uncounted)})"
        )
    return f"nothing to compare: {a.origin} and {b.origin} have no task in common"


def decision(report: PairedReport) -> str:
    """The first line."""
    found = report.comparison
    shown = f"{points(found.difference)} ({point_interval(found.interval)}), {_tests(found)}, {plural(len(found.pairing.pairs), 'task')}"
    label = "".join(f" [{one}]" for one in report.labels)
    if found.better is None:
        return f"NO DIFFERENCE SHOWN: B minus A {shown}{label}"
    return f"{found.better} BETTER: B minus A {shown}{label}"


def _tests(found: Comparison) -> str:
    if found.contingency:
        return f"mid-p {probability(found.mcnemar_mid_p)}, exact {probability(found.mcnemar_exact)}"
    return f"sign-flip p {probability(found.sign_flip)}"


# --- Markdown -----------------------------------------------------------------------------------------------------------


def as_markdown(report: PairedReport) -> str:
    found = report.comparison
    lines = [f"# {decision(report)}", ""]
    lines += [
        f"- A: {code(report.a.name)} from {code(report.a.origin)}",
        f"- B: {code(report.b.name)} from {code(report.b.origin)}",
    ]
    lines += [f"- decided at {ALPHA} on the {found.rate} rate, two-sided", ""]
    lines += ["## Comparability", "", *(f"- {text}" for text in comparability_lines(report)), ""]
    lines += ["## Rates", "", *_rates(report), ""]
    if found.contingency:
        table = found.contingency
        lines += [f"## Tasks by outcome ({found.rate} rate)", ""]
        rows = [
            ("**A passed**", str(table.both), str(table.only_a)),
            ("**A did not**", str(table.only_b), str(table.neither)),
        ]
        lines += [*markdown_table(("", "B passed", "B did not"), rows), ""]
    notes = [*found.notes, *_left_out(found.pairing)]
    if notes:
        lines += ["## Notes", "", *(f"- {note}" for note in notes), ""]
    lines += ["## Tasks that differ", "", *_flip_table(report), ""]
    lines += _costs(report)
    return "\n".join(lines).rstrip() + "\n"


def comparability_lines(report: PairedReport) -> list[str]:
    held = report.comparability
    if held.comparable:
        return ["the two sides share contracts, configuration class, seeds and harness version"]
    lines = (
        [f"different contract versions: {', '.join(map(code, held.across_versions))}"] if held.across_versions else []
    )
    lines += [_escaped(text) for text in (*held.differences, *held.deviations)]
    if held.unknown:
        lines.append("results made elsewhere do not say under which contract and configuration they were made")
    return lines


def _escaped(text: str) -> str:
    """Our words, then what is taken from records."""
    words, colon, values = text.partition(": ")
    return f"{words}: {code(values)}" if colon else text


def _rates(report: PairedReport) -> list[str]:
    rows = []
    for one in (report.comparison, report.other):
        if one is None:
            continue
        tests = (probability(one.mcnemar_mid_p), probability(one.mcnemar_exact), probability(one.sign_flip))
        method = f" ({one.interval.method})" if one.interval else ""
        numbers = (
            percent(one.share_a),
            percent(one.share_b),
            points(one.difference),
            point_interval(one.interval) + method,
        )
        rows.append((str(one.rate), *numbers, *tests, str(len(one.pairing.pairs))))
    head = ("rate", "A", "B", "B minus A", "interval", "McNemar mid-p", "McNemar exact", "sign-flip p", "tasks")
    return markdown_table(head, rows)


def _left_out(pairing: Pairing) -> list[str]:
    groups = (
        (pairing.only_a, "only A ran"),
        (pairing.only_b, "only B ran"),
        (pairing.uncounted, "left out because a side has only invalid runs:"),
    )
    return [
        f"{plural(len(tasks), 'task')} {words} {', '.join(map(code, tasks[:10]))}" for tasks, words in groups if tasks
    ]


def _flip_table(report: PairedReport) -> list[str]:
    if not report.flips:
        return ["None: both sides did every task equally well."]
    ordered = sorted(report.flips, key=lambda one: (-abs(one.gain), one.task))
    rows = [
        (
            code(one.task),
            f"{one.mean_a:.0%} → {one.mean_b:.0%}",
            _side_cell(one.why_a, one.files_a, report.a),
            _side_cell(one.why_b, one.files_b, report.b),
        )
        for one in ordered
    ]
    return markdown_table(("task", "A → B", "A", "B"), rows)


def _side_cell(whys: Sequence[str], files: Sequence[str], side: Side) -> str:
    """The side's verdicts, and where their evidence lies."""
    shown = [code(why, 120) for why in whys[:3]] + [link(path, path, str(side.folder)) for path in files[:3]]
    return "<br>".join(one for one in shown if one)


def _costs(report: PairedReport) -> list[str]:
    totals = [_cost(side.trials) for side in (report.a, report.b)]
    if any(total is None for total in totals):
        return []
    return [f"Cost: A {totals[0]:.4g}, B {totals[1]:.4g} in total, in the unit of the records."]


def _cost(trials: Sequence[Trial]) -> float | None:
    costs = [trial.cost for trial in trials]
    return None if any(cost is None for cost in costs) else math.fsum(cost or 0 for cost in costs)


# --- JSON and CSV -------------------------------------------------------------------------------------------------------


def as_json(report: PairedReport) -> dict[str, Json]:
    held, found = report.comparability, report.comparison
    return {
        "decision": decision(report),
        "better": found.better,
        "alpha": ALPHA,
        "labels": list(report.labels),
        "a": {
            "name": report.a.name,
            "origin": report.a.origin,
            "attempts": len(report.a.trials),
            "cost": _cost(report.a.trials),
        },
        "b": {
            "name": report.b.name,
            "origin": report.b.origin,
            "attempts": len(report.b.trials),
            "cost": _cost(report.b.trials),
        },
        "comparability": {
            "comparable": held.comparable,
            "across_versions": list(held.across_versions),
            "differences": list(held.differences),
            "deviations": list(held.deviations),
            "unknown": held.unknown,
        },
        "rate": found.rate,
        "comparisons": {one.rate: comparison_json(one) for one in (found, report.other) if one is not None},
        "unpaired": {
            "only_a": list(found.pairing.only_a),
            "only_b": list(found.pairing.only_b),
            "uncounted": list(found.pairing.uncounted),
        },
        "flips": [
            {
                "task": one.task,
                "a": one.mean_a,
                "b": one.mean_b,
                "why_a": list(one.why_a),
                "why_b": list(one.why_b),
                "task_dirs_a": _placed(one.files_a, report.a),
                "task_dirs_b": _placed(one.files_b, report.b),
            }
            for one in report.flips
        ],
    }


def comparison_json(one: Comparison) -> dict[str, Json]:
    table = one.contingency
    return {
        "tasks": len(one.pairing.pairs),
        "share_a": one.share_a,
        "share_b": one.share_b,
        "difference": one.difference,
        "interval": interval_json(one.interval),
        "contingency": (
            {"both": table.both, "only_a": table.only_a, "only_b": table.only_b, "neither": table.neither}
            if table
            else None
        ),
        "mcnemar_exact": one.mcnemar_exact,
        "mcnemar_mid_p": one.mcnemar_mid_p,
        "sign_flip": one.sign_flip,
        "notes": list(one.notes),
    }


CSV_HEAD = (
    "task",
    "attempts_a",
    "passed_a",
    "attempts_b",
    "passed_b",
    "mean_a",
    "mean_b",
    "difference",
    "task_dir_a",
    "task_dir_b",
)


def as_csv(report: PairedReport) -> str:
    """Side by side, one row per paired task."""
    return csv_text(CSV_HEAD, [_csv_row(one, report) for one in report.comparison.pairing.pairs])


def _csv_row(one: PairedTask, report: PairedReport) -> dict[str, Cell]:
    return {
        "task": one.task,
        "attempts_a": len(one.a),
        "passed_a": sum(one.a),
        "attempts_b": len(one.b),
        "passed_b": sum(one.b),
        "mean_a": float(one.mean_a),
        "mean_b": float(one.mean_b),
        "difference": float(one.difference),
        "task_dir_a": " ".join(_placed(_files(_records(report.a, one.task)), report.a)),
        "task_dir_b": " ".join(_placed(_files(_records(report.b, one.task)), report.b)),
    }


# --- parts --------------------------------------------------------------------------------------------------------------


def _flip(one: PairedTask, a: Side, b: Side) -> Flip:
    left, right = _records(a, one.task), _records(b, one.task)
    return Flip(
        task=one.task,
        mean_a=float(one.mean_a),
        mean_b=float(one.mean_b),
        why_a=tuple(headline(record) for record in left),
        why_b=tuple(headline(record) for record in right),
        files_a=_files(left),
        files_b=_files(right),
    )


def _records(side: Side, task: str) -> list[AttemptRecord]:
    return sorted((record for record in side.records if record.task_id == task), key=lambda one: one.repeat)


def _files(records: Sequence[AttemptRecord]) -> tuple[str, ...]:
    return tuple(record.artifact_paths.task_dir for record in records)


def _placed(files: Sequence[str], side: Side) -> list[str]:
    """Folders of attempts, from where the run directory was named."""
    return [str(side.folder / path) for path in files] if side.folder else []
