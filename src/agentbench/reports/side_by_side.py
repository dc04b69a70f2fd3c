"""Contract, scorers and judge of one attempt side by side. Where they disagree it is named, never resolved."""

from __future__ import annotations

from collections.abc import Iterator

from agentbench.record.schema import AttemptRecord, Judge, ScorerRecord
from agentbench.reports.escape import columns, plain

EXPANDED = 24
"""Lines shown of what a failed scorer has to say."""
WIDTH = 400


def side_by_side(record: AttemptRecord) -> list[str]:
    """The block of a card: one line with all, then scorers, judge, disagreements."""
    judge = record.judge
    lines = ["", "three gates, none decides for another"]
    mean = "" if record.mean_score is None else f", mean {record.mean_score:.2f}"
    lines += columns(
        [
            ("contract", _contract(record), f"run badge {record.run_badge}"),
            ("scorers", record.workspace_verdict, f"{len(record.scorers)} scorers{mean}" if record.scorers else "no scorers"),
            ("judge", judge.verdict if judge else "none", _model(judge) if judge else "no judge was configured"),
        ],
        "  ",
    )  # fmt: skip
    lines += [f"  disagreement: {one}" for one in disagreements(record)]
    if record.scorers:
        lines += ["", f"scorers: {record.workspace_verdict}", *_scorers(record)]
    if judge is None:
        lines += ["", "judge: no judge"]
    else:
        lines += ["", *_judge(judge)]
    return lines


def disagreements(record: AttemptRecord) -> Iterator[str]:
    """Every pair that does not say the same, and what that usually means."""
    contract, scorers = _contract(record), record.workspace_verdict
    judge = record.judge.verdict if record.judge else ""
    decided = {"PASS", "FAIL"}
    if contract != scorers and {contract, scorers} <= decided:
        meaning = (
            "a mechanical rule of the suite was broken"
            if contract == "PASS"
            else "the rules are kept, the work is not done"
        )
        yield f"contract {contract}, scorers {scorers}: {meaning}"
    if contract != judge and {contract, judge} <= decided:
        meaning = (
            "the checks accept what does not convince a reader"
            if contract == "PASS"
            else "it reads well and does not hold"
        )
        yield f"contract {contract}, judge {judge}: {meaning}"
    if judge != scorers and {judge, scorers} <= decided:
        meaning = "plausible, but against a hard rule" if judge == "PASS" else "within the rules, but not convincing"
        yield f"judge {judge}, scorers {scorers}: {meaning}"
    warned = [one.name for one in record.scorers if one.verdict == "FAIL" and not one.required]
    if warned and scorers == "PASS":
        yield f"scorers PASS, advisory {', '.join(plain(name) for name in warned)} FAIL: a warning of a heuristic, worth a look"


def _contract(record: AttemptRecord) -> str:
    if record.run_status == "invalid":
        return "INVALID"
    return "PASS" if record.result.passed else "FAIL"


def _model(judge: Judge) -> str:
    agreement = "" if judge.agreement is None else f", agreement {judge.agreement:.0%} of {len(judge.verdicts)} askings"
    return f"model {plain(judge.model)}, {judge.scored_at}{agreement}"


def _scorers(record: AttemptRecord) -> Iterator[str]:
    """One row each; a required one that failed shows all it has to say."""
    rows = [
        (
            plain(one.name),
            one.type,
            one.verdict,
            "" if one.required else "advisory",
            "" if one.score is None or one.verdict not in {"PASS", "FAIL"} else f"{one.score:.1f}",
            _first(one),
        )
        for one in record.scorers
    ]
    for one, row in zip(record.scorers, columns(rows, "  "), strict=True):
        yield row
        if one.required and one.verdict in {"FAIL", "ERROR"}:
            rest = one.detail.splitlines()[1:]
            yield from (f"      {plain(line, WIDTH)}" for line in rest[:EXPANDED])
            if len(rest) > EXPANDED:
                yield f"      … and {len(rest) - EXPANDED} more lines"


def _first(one: ScorerRecord) -> str:
    return plain(one.detail.partition("\n")[0], WIDTH)


def _judge(judge: Judge) -> Iterator[str]:
    mode = f", {plain(judge.failure_mode)}" if judge.failure_mode else ""
    yield f"judge: {judge.verdict}{mode}"
    if judge.verdict != "unparseable":
        yield (
            f"  task completion {judge.task_completion}/5   instruction adherence {judge.instruction_adherence}/5   "
            f"efficiency {judge.efficiency}/5"
        )
    for line in judge.reasoning.splitlines()[:EXPANDED]:
        yield f"  {plain(line, WIDTH)}"
    yield from columns(
        [(one.verdict, plain(one.claim, WIDTH), plain(one.evidence, WIDTH)) for one in judge.facts], "    "
    )
