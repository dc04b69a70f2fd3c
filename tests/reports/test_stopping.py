"""Reports and audits recompute the decision of a stopping rule from the records of both methods."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentbench.cli.report import command
from agentbench.core.canonical import Json
from agentbench.core.errors import InputError
from agentbench.core.reasons import TerminationCode
from agentbench.record.audit import RunReport
from agentbench.record.schema import TerminationRecord
from agentbench.reports.gate import GateFile, check_gate
from agentbench.reports.paired import compare_sides
from agentbench.reports.paired_decision import decision
from agentbench.reports.sequential_text import stopping_lines
from agentbench.reports.sources import open_sides
from agentbench.reports.stopping import declared_rule
from agentbench.reports.stopping_audit import audit_stopping
from agentbench.statistics.sequential.rules import (
    Anytime,
    GroupSequential,
    Rule,
    SequentialOutcome,
    Spending,
    rule_json,
)
from agentbench.statistics.trials import Rate
from agentbench.trace.events import ComparisonDecided
from tests.reports.runs import record, run_dir

pytestmark = pytest.mark.synthetic

POCOCK = GroupSequential(looks=2, spending=Spending.POCOCK, margin=0.3)
KINDS = {"+": "pass", "-": "fail", "!": "harness", "~": "pass"}


def meta_of(rule: Rule | None, tasks: int, variant: str, study: str = "01S") -> dict[str, Json]:
    order: list[Json] = [[f"t{n:02}", method, 1] for n in range(tasks) for method in ("old", "new")]
    stop: Json = {**rule_json(rule), "rate": "contract"} if rule else None
    return {
        "run_id": f"01R-{variant}",
        "study_id": study,
        "suite": "demo",
        "variant": variant,
        "order": order,
        "request": {"stop_when": stop},
    }


def run_of(folder: Path, variant: str, outcomes: str, rule: Rule | None, tasks: int = 14, study: str = "01S") -> Path:
    """Create the run of one method: `+` passed, `-` failed, `!` harness error, `~` interrupted, `.` not made."""
    interrupted = TerminationRecord(code=TerminationCode.INTERRUPTED, rationale="it was interrupted")
    records = [
        record(f"t{n:02}", KINDS[sign], 1, variant=variant)
        if sign != "~"
        else record(f"t{n:02}", KINDS[sign], 1, variant=variant, termination=interrupted)
        for n, sign in enumerate(outcomes)
        if sign != "."
    ]
    path = run_dir(folder / variant, records)
    (path / "run.json").write_text(json.dumps(meta_of(rule, tasks, variant, study)))
    return path


def comparison(folder: Path, old: str, new: str, rule: Rule = POCOCK) -> tuple[Path, Path]:
    return run_of(folder, "old", old, rule), run_of(folder, "new", new, rule)


def text_of(*arguments: str | Path) -> str:
    result = CliRunner().invoke(command, ["paired", *map(str, arguments)])
    assert result.exception is None, result.exception
    return result.output


# --- paired report ----------------------------------------------------------------------------------------------------


def test_report_uses_adjusted_numbers_and_says_so(tmp_path: Path) -> None:
    old, new = comparison(tmp_path, "-------", "+++++++")
    first, *rest = text_of(old, new).splitlines()
    assert first.startswith("# B IS BETTER: new − old = +100.0 points (adjusted 95% CI +")
    assert "adjusted p = 0.0252 (group sequential with Pocock spending), 7 tasks. Look 1 of 2, 14 of 28" in first
    assert "- Other intervals and p-values below are not adjusted for the looks" in rest
    value = json.loads(text_of(old, new, "--json"))
    assert value["better"] == "B"
    assert value["stopping"]["decision"]["outcome"] == "b_better"
    assert value["stopping"]["rule"] == rule_json(POCOCK)
    assert value["stopping"]["planned_attempts"] == 28
    # Newcombe's ordinary interval is narrower than the adjusted one.
    ordinary, adjusted = (
        value["comparisons"]["contract"]["interval"],
        value["stopping"]["decision"]["adjusted_interval"],
    )
    assert adjusted["low"] < ordinary["low"]


def test_report_says_what_decides_if_the_adjusted_interval_includes_0(tmp_path: Path) -> None:
    old, new = comparison(tmp_path, "-------", "+++++++")
    stopped = compare_sides(*open_sides(str(old), str(new))).stopped
    assert stopped is not None
    assert stopped.decision is not None
    assert stopped.decision.interval is not None
    wide = replace(stopped.decision, interval=replace(stopped.decision.interval, low=-0.1))
    note = "The interval includes 0, but the test is significant. The test decides."
    assert note in stopping_lines(replace(stopped, decision=wide))
    assert note not in stopping_lines(stopped)


def test_exchanged_sides_give_the_mirrored_decision(tmp_path: Path) -> None:
    old, new = comparison(tmp_path, "-------", "+++++++")
    assert text_of(new, old).startswith("# A IS BETTER: old − new = -100.0 points (adjusted 95% CI -100.0 to -")


def test_html_page_has_the_rule_and_the_adjusted_interval(tmp_path: Path) -> None:
    old, new = comparison(tmp_path, "-------", "+++++++")
    text_of(old, new, "--format", "html", "--out", tmp_path / "page")
    page = (tmp_path / "page" / "index.html").read_text()
    assert "group sequential with Pocock spending" in page
    assert "adjusted_interval" in page
    assert "adjusted for looks" in page


def test_records_of_an_open_look_are_undecided(tmp_path: Path) -> None:
    old, new = comparison(tmp_path, "-----", "+++++")
    assert text_of(old, new).startswith("# UNDECIDED: the first look of the stopping rule is not complete.")
    assert json.loads(text_of(old, new, "--json"))["stopping"]["decision"] is None


def test_interrupted_attempts_do_not_complete_a_look(tmp_path: Path) -> None:
    old, new = comparison(tmp_path, "-------", "++~++++")
    assert "UNDECIDED: the first look" in text_of(old, new)


def test_invalid_attempts_complete_a_look_without_counting(tmp_path: Path) -> None:
    old, new = comparison(tmp_path, "-------", "++!++++")
    report = compare_sides(*open_sides(str(old), str(new)))
    assert report.adjusted is not None
    assert report.adjusted.outcome is SequentialOutcome.CONTINUE
    assert (report.adjusted.tasks, report.adjusted.blocks) == (6, 7)
    assert decision(report).startswith("UNDECIDED: new − old = +100.0 points")


def test_equivalent_and_inconclusive_are_named(tmp_path: Path) -> None:
    equal = "+" * 14
    old, new = comparison(tmp_path / "equal", equal, equal)
    assert text_of(old, new).startswith("# EQUIVALENT: new − old = +0.0 points (adjusted 95% CI -")
    old, new = comparison(tmp_path / "mixed", "+-" * 7, "-+" * 7, Anytime(looks=2))
    first = text_of(old, new).splitlines()[0]
    assert first.startswith("# INCONCLUSIVE: ")
    assert "(anytime-valid confidence sequence)" in first


def test_another_rate_or_another_partner_is_not_adjusted(tmp_path: Path) -> None:
    old, new = comparison(tmp_path, "-------", "+++++++")
    assert "[PROVISIONAL]" in text_of(old, new, "--rate", "acceptance").splitlines()[0]
    other = run_of(tmp_path / "other", "new", "+++++++", None, study="02S")
    text = text_of(old, other)
    assert "A: a stopping rule (group sequential with Pocock spending) could end this run early" in text
    assert "Stopping rule" not in text


def test_gate_uses_the_adjusted_interval(tmp_path: Path) -> None:
    old, new = comparison(tmp_path, "-------", "+++++++")
    report = compare_sides(*open_sides(str(old), str(new)))
    gate = GateFile.model_validate({"non_inferiority": {"margin": 0.1, "alpha": 0.05}})
    assert report.adjusted is not None
    assert report.adjusted.interval is not None
    (condition,) = check_gate(gate, report).conditions
    assert f"at least +{100 * report.adjusted.interval.low:.1f} points" in condition.why
    strict = GateFile.model_validate({"non_inferiority": {"margin": 0.1, "alpha": 0.01}})
    assert check_gate(strict, report).conditions[0].why == "the stopping rule has no interval of this confidence"


# --- declaration ------------------------------------------------------------------------------------------------------


def test_run_without_a_rule_declares_none() -> None:
    assert declared_rule({}) is None
    assert declared_rule(meta_of(None, 3, "old")) is None


@pytest.mark.parametrize(
    "change, problem",
    [
        ({"request": {"stop_when": {"rule": "group_sequential", "looks": 99}}}, "looks must be between"),
        ({"request": {"stop_when": "decided"}}, "not an object"),
        ({"order": [["t", "old", 1], ["u", "new", 1]]}, "exactly two methods in blocks"),
        ({"order": [["t", "old", 1], ["t", "new", 1], ["u", "old", 1]]}, "exactly two methods in blocks"),
        ({"order": [["t", "old"]]}, "is not an attempt"),
        ({"order": [["t", "old", 1], ["t", "new", 1], ["u", "old", 2], ["u", "new", 2]]}, "the same repeats"),
        ({"order": None}, "exactly two methods"),
    ],
)
def test_unusable_declarations_are_refused(change: dict[str, Json], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        declared_rule({**meta_of(POCOCK, 14, "old"), **change})


def test_recorded_rate_decides_which_attempts_count() -> None:
    meta = meta_of(POCOCK, 14, "old")
    declared = declared_rule(meta)
    assert declared is not None
    assert (declared.rate, declared.methods, declared.looks) == (Rate.CONTRACT, ("old", "new"), (7, 14))


# --- audit ------------------------------------------------------------------------------------------------------------


def audited(run: Path, decided: ComparisonDecided | None) -> RunReport:
    return audit_stopping(run, RunReport(run, (), (), "", 7, 0, 0, 0, decided=decided))


def test_audit_confirms_a_decision_that_the_records_give(tmp_path: Path) -> None:
    old, _ = comparison(tmp_path, "-------", "+++++++")
    report = audited(old, ComparisonDecided(look=1, blocks=7, outcome="b_better", better="new"))
    assert report.ok
    assert report.notes[0].startswith("stopping rule recomputed: new is better at look 1 of 2 (7 of 14 blocks)")


@pytest.mark.parametrize(
    "old, new, decided, problem",
    [
        (
            "-------",
            "+++++++",
            ("a_better", "old", 1, 7),
            "logged as a_better (old) at look 1, the records give b_better (new)",
        ),
        (
            "-------",
            "+++++++",
            ("b_better", "old", 1, 7),
            "logged as b_better (old) at look 1, the records give b_better (new)",
        ),
        ("-------", "++++++-", ("b_better", "new", 1, 7), "the records give continue at look 1"),
        ("------", "++++++", ("b_better", "new", 1, 7), "the records give no complete look"),
        ("-------", "+++++++", ("b_better", "new", 1, 8), "logged as b_better (new) at look 1"),
        ("--------", "++++++++", ("b_better", "new", 1, 7), "t07, old, repeat 1 was attempted although"),
    ],
)
def test_audit_finds_a_decision_that_the_records_do_not_give(
    tmp_path: Path, old: str, new: str, decided: tuple[str, str, int, int], problem: str
) -> None:
    run, _ = comparison(tmp_path, old, new)
    outcome, better, look, blocks = decided
    report = audited(run, ComparisonDecided(look=look, blocks=blocks, outcome=outcome, better=better))
    assert [problem in found.message for found in report.problems] == [True], report.problems


def test_audit_finds_a_decision_without_a_declared_rule(tmp_path: Path) -> None:
    run = run_of(tmp_path, "old", "-------", None)
    report = audited(run, ComparisonDecided(look=1, blocks=7, outcome="b_better", better="new"))
    assert [found.message for found in report.problems] == ["a stopping rule has decided, but run.json declares none"]
    assert replace(audited(run, None), path=run).ok


def test_audit_needs_the_run_of_the_other_method(tmp_path: Path) -> None:
    run = run_of(tmp_path, "old", "-------", POCOCK)
    report = audited(run, None)
    assert report.ok
    assert report.skipped == ("stopping decision: the run of new is not in the same folder",)
