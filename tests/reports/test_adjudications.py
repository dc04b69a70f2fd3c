from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pydantic import JsonValue

from agentbench.cli.adjudicate import command
from agentbench.core.canonical import Json, canonical
from agentbench.core.errors import InputError
from agentbench.core.reasons import Gate, Outcome, TerminationCode
from agentbench.record.audit import verify_run
from agentbench.record.schema import Tag, TerminationRecord
from agentbench.reports.adjudications import read_adjudications
from agentbench.reports.card import run_card
from agentbench.reports.run_list import as_lines, list_runs
from agentbench.reports.sources import open_run
from agentbench.reports.summary import summarise
from agentbench.reports.summary_data import as_json
from agentbench.reports.summary_markdown import as_markdown
from agentbench.trace.events import GateResult
from agentbench.verdict.taxonomy import taxonomy
from agentbench.view.index import RunIndex
from agentbench.view.roots import Roots
from tests.record.samples import whole_run
from tests.reports.runs import record, run_dir

pytestmark = pytest.mark.synthetic


def adjudicate(*args: object) -> Result:
    return CliRunner().invoke(command, list(map(str, args)))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    records = [record("a", "fail", needs_review=True), record("b", "fail"), record("c", "pass"), record("d", "policy")]
    return run_dir(tmp_path / "run", records)


@pytest.mark.req("A-05", "G-17b")
def test_adjudications_are_counted_per_category_with_minutes(run: Path) -> None:
    before = (run / "attempts.jsonl").read_bytes()
    assert (
        adjudicate(run, "--attempt", "01-a-1", "--truth", "correct", "--minutes", 6, "--reviewer", "r").exit_code == 0
    )
    adjudicate(run, "--attempt", "b", "--truth", "incorrect", "--minutes", 2.5, "--reviewer", "r")
    adjudicate(
        run,
        "--attempt",
        "c@1",
        "--truth",
        "incorrect",
        "--category",
        "invariant_violation",
        "--minutes",
        9,
        "--reviewer",
        "r",
    )
    adjudicate(run, "--attempt", "d", "--truth", "undecidable", "--minutes", 1, "--reviewer", "r")
    summary = summarise(open_run(run))
    counts = {
        category.category: (
            category.false_positive.count,
            category.false_positive.total,
            category.false_negative.count,
            category.false_negative.total,
        )
        for category in summary.error_rates
    }
    assert counts == {"acceptance.unit": (1, 2, 0, 1), "invariant_violation": (0, 0, 1, 1)}
    text = as_markdown(summary)
    assert "4 adjudications of 4 attempts, 18.5 minutes of review. Not in the rates: 1 undecidable." in text
    assert "| `acceptance.unit` | 1 of 2 |" in text
    assert (run / "attempts.jsonl").read_bytes() == before, "verdicts must not change"


def test_later_adjudication_of_a_reviewer_replaces_the_earlier(run: Path) -> None:
    first, second = (
        adjudicate(run, "--attempt", "a", "--truth", truth, "--minutes", 1, "--reviewer", "r").output
        for truth in ("correct", "incorrect")
    )
    assert "replaces" not in first
    assert "replaces correct, 1 minutes by r" in second
    adjudicate(run, "--attempt", "a", "--truth", "correct", "--minutes", 1, "--reviewer", "other")
    assert [adjudication.truth for adjudication in read_adjudications(run)] == ["incorrect", "correct"]
    assert len((run / "adjudications.jsonl").read_bytes().splitlines()) == 3


def counts(run: Path) -> dict[str, tuple[int, int, int, int]]:
    """Return false positives of flagged and false negatives of actual attempts by category."""
    return {
        category.category: (
            *(category.false_positive.count, category.false_positive.total),
            *(category.false_negative.count, category.false_negative.total),
        )
        for category in summarise(open_run(run)).error_rates
    }


@pytest.mark.req("A-05")
def test_category_that_differs_from_the_rejection_counts_on_both_sides(run: Path) -> None:
    found = ("--category", "invariant_violation", "--category", "policy.scope")
    assert adjudicate(run, "--attempt", "a", "--truth", "incorrect", *found, "--minutes", 1).exit_code == 0
    adjudicate(run, "--attempt", "d", "--truth", "incorrect", "--minutes", 1)
    assert counts(run) == {
        "acceptance.unit": (1, 1, 0, 0),
        "invariant_violation": (0, 0, 1, 1),
        "policy.scope": (0, 1, 1, 2),
    }


@pytest.mark.req("A-05")
def test_disputed_attempt_is_counted_apart(run: Path) -> None:
    for reviewer, truth in (("r", "correct"), ("s", "incorrect")):
        adjudicate(run, "--attempt", "a", "--truth", truth, "--minutes", 1, "--reviewer", reviewer)
    assert counts(run) == {}
    summary = summarise(open_run(run))
    assert "2 adjudications of 1 attempt, 2 minutes of review. Not in the rates: 1 disputed" in as_markdown(summary)


@pytest.mark.req("A-05")
def test_tags_that_reject_nothing_are_in_no_rate(tmp_path: Path) -> None:
    def tag(name: str, gate: Gate, **attributes: JsonValue) -> Tag:
        return Tag(id=name, gate=gate, evidence=(1,), attributes=attributes)

    tags = (
        tag("acceptance.unit", Gate.G3),
        tag("budget.overrun", Gate.G3, total="2", cap="1"),
        tag("oracle.disagreement", Gate.G3, command="pytest"),
        tag("dependency_hallucination", Gate.G4, severity="note"),
        tag("policy.dependency", Gate.G4, severity="penalty"),
        tag("policy.scope", Gate.G4, severity="penalty"),
        tag("policy.scope", Gate.G4, severity="gate"),
    )
    failed = GateResult(outcome=Outcome.FAIL, passed=False)
    gates = {
        gate: failed if gate in {Gate.G3, Gate.G4} else GateResult(outcome=Outcome.PASS, passed=True) for gate in Gate
    }
    run = run_dir(tmp_path / "run", [record("a", "fail", tags=tags, gates=gates)])
    adjudicate(run, "--attempt", "a", "--truth", "correct", "--minutes", 1)
    assert counts(run) == {"acceptance.unit": (1, 1, 0, 0), "policy.scope": (1, 1, 0, 0)}


def test_adjudications_of_older_versions_are_mapped(run: Path) -> None:
    line: dict[str, Json] = {
        "adjudication_id": "1",
        "at": "",
        "minutes": 1,
        "note": "",
        "reviewer": "r",
        "schema_version": 1,
    }
    old: list[dict[str, Json]] = [
        {"attempt_id": "01-a-1", "truth": "correct", "category": "TESTS_FAILED"},
        {"attempt_id": "01-b-1", "truth": "incorrect", "category": "TESTS_FAILED"},
        {"attempt_id": "01-c-1", "truth": "incorrect", "category": "looks odd"},
    ]
    (run / "adjudications.jsonl").write_bytes(b"".join(canonical({**line, **more}) + b"\n" for more in old))
    assert counts(run) == {"acceptance.unit": (1, 2, 0, 1)}
    assert "1 with a category outside the taxonomy" in as_markdown(summarise(open_run(run)))


def test_defect_without_a_decision_needs_a_category(tmp_path: Path) -> None:
    undecided = (Tag(id="evaluation_error", gate=Gate.G3, evidence=(1,)),)
    run = run_dir(tmp_path / "run", [record("e", "error", tags=undecided)])
    result = adjudicate(run, "--attempt", "e", "--truth", "incorrect", "--minutes", "1")
    assert isinstance(result.exception, InputError)
    assert "an attempt without a decision needs --category" in result.exception.message


def test_help_lists_every_category() -> None:
    shown = adjudicate("--help").output
    assert [category for category in taxonomy() if category not in shown] == []


def test_every_report_counts_the_same_attempts_to_review(tmp_path: Path) -> None:
    records = [record(name, "fail", needs_review=True) for name in ("a", "b", "c")]
    run = run_dir(tmp_path / "runs" / "run", records)
    adjudicate(run, "--attempt", "a", "--truth", "correct", "--minutes", 3)
    assert "1 adjudicated (3 minutes), 2 to review" in adjudicate(run, "--list").output
    summary = summarise(open_run(run))
    assert "\nto review    2 attempts: b, c\n" in run_card(summary)
    assert "2 to review" in "\n".join(as_lines(list_runs(run.parent)))
    assert "3 attempts flagged for review, 1 of them adjudicated, 2 to review." in as_markdown(summary)
    assert as_json(summary)["needs_review"] == ["01-b-1", "01-c-1"]
    index = RunIndex(Roots.of([run.parent]))
    (entry,) = index.entries(wait=True)
    assert entry.counts is not None
    assert entry.counts.needs_review == 2
    index.close()


def test_list_counts_attempts_and_names_no_defect_of_a_correct_patch(run: Path) -> None:
    common = ("--attempt", "d", "--minutes", 3)
    said = adjudicate(run, *common, "--truth", "correct", "--reviewer", "al").stdout
    assert said == "correct: d, repeat 1 (POLICY_VIOLATION), 3 minutes by al\n"
    adjudicate(run, *common, "--truth", "incorrect", "--reviewer", "bo")
    first, *rows = adjudicate(run, "--list").output.splitlines()
    assert first == "1 adjudicated (6 minutes), 1 of them disputed, 1 to review"
    assert [row.split()[1:-1] for row in rows[:2]] == [["correct", "al"], ["incorrect", "policy.scope", "bo"]]


def test_attempt_without_a_patch_cannot_be_correct(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record("a", "task", patch=None)])
    refused = adjudicate(run, "--attempt", "a", "--truth", "correct", "--minutes", 1)
    assert isinstance(refused.exception, InputError)
    assert refused.exception.message == "a, repeat 1 (SETUP_FAILED) has no patch, so nothing can be correct"
    assert not (run / "adjudications.jsonl").exists()
    assert adjudicate(run, "--attempt", "a", "--truth", "undecidable", "--minutes", 1).exit_code == 0


def test_list_shows_waiting_attempts(run: Path) -> None:
    assert "0 adjudicated (0 minutes), 1 to review" in adjudicate(run, "--list").output
    assert json.loads(adjudicate(run, "--list", "--json").output)["review_reasons"] == {"01-a-1": ["needs review"]}
    adjudicate(run, "--attempt", "a", "--truth", "correct", "--minutes", 3)
    data = json.loads(adjudicate(run, "--list", "--json").output)
    assert data["waiting"] == []
    assert data["adjudications"][0]["minutes"] == 3


def test_list_begins_with_what_was_altered(tmp_path: Path) -> None:
    run = whole_run(tmp_path / "runs")
    records = run / "attempts.jsonl"
    records.write_bytes(records.read_bytes().replace(b"{", b'{"x":1,', 1))
    shown = adjudicate(run, "--list")
    assert shown.output.startswith("ALTERED: attempts.jsonl:1 ")
    assert json.loads(adjudicate(run, "--list", "--json").output)["altered"][0]["place"] == "attempts.jsonl:1"


@pytest.mark.parametrize(
    "args,message",
    [
        (["--attempt", "missing", "--truth", "correct", "--minutes", "1"], "no finished attempt matches"),
        (["--attempt", "c", "--truth", "incorrect", "--minutes", "1"], "needs --category"),
        (
            ["--attempt", "c", "--truth", "incorrect", "--category", "invarient_violation", "--minutes", "1"],
            "unknown category 'invarient_violation' (did you mean `invariant_violation`?)",
        ),
        (
            ["--attempt", "a", "--truth", "incorrect", "--category", "TESTS_FAILED", "--minutes", "1"],
            "unknown category",
        ),
        (
            ["--attempt", "a", "--truth", "correct", "--category", "build.failed", "--minutes", "1"],
            "was not rejected with build.failed",
        ),
        (["--truth", "correct"], "missing: --attempt, --minutes"),
        (["--truth", "correct", "--attempt", "x"], "missing: --minutes"),
        (["--attempt", "a", "--truth", "correct", "--minutes", "1", "--note", "x" * 20_000], "note"),
        (["--attempt", "a", "--truth", "correct", "--minutes", "nan"], "minutes"),
    ],
)
def test_invalid_adjudication_is_rejected(run: Path, args: list[str], message: str) -> None:
    result = adjudicate(run, *args)
    assert isinstance(result.exception, InputError), result.output
    assert message in result.exception.message
    assert not (run / "adjudications.jsonl").exists()


def test_incomplete_line_is_dropped_and_invalid_line_is_reported(run: Path) -> None:
    adjudicate(run, "--attempt", "a", "--truth", "correct", "--minutes", 1)
    with (run / "adjudications.jsonl").open("ab") as file:
        file.write(b'{"torn')
    assert len(read_adjudications(run)) == 1
    adjudicate(run, "--attempt", "b", "--truth", "correct", "--minutes", 1)
    assert len(read_adjudications(run)) == 2
    with (run / "adjudications.jsonl").open("ab") as file:
        file.write(b'{"not": "one"}\n')
    with pytest.raises(InputError, match=r"adjudications\.jsonl:3"):
        read_adjudications(run)


def test_adjudications_do_not_affect_verification(tmp_path: Path) -> None:
    run = whole_run(tmp_path / "runs")
    (first, *_) = open_run(run).rows
    adjudicate(run, "--attempt", first.attempt_id, "--truth", "correct", "--minutes", 1)
    assert verify_run(run).ok


def test_interrupted_attempts_wait_for_no_review(tmp_path: Path) -> None:
    ending = TerminationRecord(code=TerminationCode.INTERRUPTED, rationale="interrupted")
    records = [record("a", "operator", needs_review=True, termination=ending), record("b", "fail", needs_review=True)]
    run = run_dir(tmp_path / "run", records)
    assert "0 adjudicated (0 minutes), 1 to review" in adjudicate(run, "--list").output
    assert [row.task for row in open_run(run).rows if row.needs_review] == ["b"]
