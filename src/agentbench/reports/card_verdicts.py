"""The part of an attempt's card that shows the verdicts of contract, scorers and judge side by side."""

from __future__ import annotations

from collections.abc import Iterator

from agentbench.record.schema import AttemptRecord, Judge
from agentbench.reports.escape import columns, plain
from agentbench.reports.number_format import plural

MAX_LINES = 24
"""Lines shown of a failed scorer's detail and of a judge's reasoning."""
WIDTH = 400


def independent_verdicts(record: AttemptRecord) -> list[str]:
    """Render contract, scorers and judge side by side. Disagreements are listed, never resolved."""
    judge = record.judge
    mean = "" if record.mean_score is None else f", mean {record.mean_score:.2f}"
    rows = [
        ("contract", _contract_verdict(record), f"run badge {record.run_badge}"),
        ("scorers", record.workspace_verdict, f"{plural(len(record.scorers), 'scorer')}{mean}"),
        ("judge", judge.verdict if judge else "none", _judge_model(judge) if judge else "no judge configured"),
    ]
    lines = ["", "independent verdicts", *columns(rows, "  ")]
    lines += [f"  disagreement: {text}" for text in _disagreements(record)]
    if record.scorers:
        lines += ["", f"scorers: {record.workspace_verdict}", *_scorers(record)]
    if judge:
        lines += ["", *_judge(judge)]
    return lines


def _disagreements(record: AttemptRecord) -> Iterator[str]:
    """Describe every pair of verdicts that differ, and what that usually means."""
    contract, scorers = _contract_verdict(record), record.workspace_verdict
    judge = record.judge.verdict if record.judge else ""
    decided = {"PASS", "FAIL"}
    if contract != scorers and {contract, scorers} <= decided:
        meaning = (
            "a rule of the suite was broken" if contract == "PASS" else "the rules hold, but the task is not solved"
        )
        yield f"contract {contract}, scorers {scorers}: {meaning}"
    if contract != judge and {contract, judge} <= decided:
        meaning = (
            "the checks pass, but the judge is not convinced"
            if contract == "PASS"
            else "the judge is convinced, but the checks fail"
        )
        yield f"contract {contract}, judge {judge}: {meaning}"
    if judge != scorers and {judge, scorers} <= decided:
        meaning = "convincing, but breaks a rule" if judge == "PASS" else "follows the rules, but is not convincing"
        yield f"judge {judge}, scorers {scorers}: {meaning}"
    warned = [scorer.name for scorer in record.scorers if scorer.verdict == "FAIL" and not scorer.required]
    if warned and scorers == "PASS":
        yield f"scorers PASS, advisory {', '.join(map(plain, warned))} FAIL: a heuristic warning"


def _contract_verdict(record: AttemptRecord) -> str:
    if record.run_status == "invalid":
        return "INVALID"
    return "PASS" if record.result.passed else "FAIL"


def _scorers(record: AttemptRecord) -> Iterator[str]:
    """Render one row per scorer; a required one that failed shows its full detail."""
    rows = [
        (
            plain(scorer.name),
            scorer.type,
            scorer.verdict,
            "" if scorer.required else "advisory",
            "" if scorer.score is None or scorer.verdict not in {"PASS", "FAIL"} else f"{scorer.score:.1f}",
            plain(scorer.detail.partition("\n")[0], WIDTH),
        )
        for scorer in record.scorers
    ]
    for scorer, row in zip(record.scorers, columns(rows, "  "), strict=True):
        yield row
        if scorer.required and scorer.verdict in {"FAIL", "ERROR"}:
            rest = scorer.detail.splitlines()[1:]
            yield from (f"      {plain(line, WIDTH)}" for line in rest[:MAX_LINES])
            if len(rest) > MAX_LINES:
                yield f"      … {len(rest) - MAX_LINES} more lines"


def _judge_model(judge: Judge) -> str:
    agreement = (
        "" if judge.agreement is None else f", {judge.agreement:.0%} agreement over {len(judge.verdicts)} verdicts"
    )
    return f"model {plain(judge.model)}, {judge.scored_at}{agreement}"


def _judge(judge: Judge) -> Iterator[str]:
    failure_mode = f", {plain(judge.failure_mode)}" if judge.failure_mode else ""
    yield f"judge: {judge.verdict}{failure_mode}"
    if judge.verdict != "unparseable":
        yield (
            f"  task completion {judge.task_completion}/5   instruction adherence {judge.instruction_adherence}/5   "
            f"efficiency {judge.efficiency}/5"
        )
    for line in judge.reasoning.splitlines()[:MAX_LINES]:
        yield f"  {plain(line, WIDTH)}"
    rows = [(fact.verdict, plain(fact.claim, WIDTH), plain(fact.evidence, WIDTH)) for fact in judge.facts]
    yield from columns(rows, "    ")
