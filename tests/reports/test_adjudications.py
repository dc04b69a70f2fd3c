from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agentbench.cli.adjudicate import command
from agentbench.core.errors import InputError
from agentbench.record.audit import verify_run
from agentbench.reports.adjudications import read_adjudications
from agentbench.reports.sources import open_run
from agentbench.reports.summary import summarise
from agentbench.reports.summary_markdown import as_markdown
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
        )
        for category in summary.error_rates
    }
    assert counts == {"TESTS_FAILED": (1, 2, 0), "invariant_violation": (0, 0, 1)}
    text = as_markdown(summary)
    assert "4 adjudications, 18.5 minutes of review" in text
    assert "| `TESTS_FAILED` | 1 of 2 |" in text
    assert (run / "attempts.jsonl").read_bytes() == before, "verdicts must not change"


def test_later_adjudication_of_a_reviewer_replaces_the_earlier(run: Path) -> None:
    for truth in ("correct", "incorrect"):
        adjudicate(run, "--attempt", "a", "--truth", truth, "--minutes", 1, "--reviewer", "r")
    adjudicate(run, "--attempt", "a", "--truth", "correct", "--minutes", 1, "--reviewer", "other")
    assert [adjudication.truth for adjudication in read_adjudications(run)] == ["incorrect", "correct"]
    assert len((run / "adjudications.jsonl").read_bytes().splitlines()) == 3


def test_list_shows_waiting_attempts(run: Path) -> None:
    assert "0 adjudicated (0 minutes), 1 to review" in adjudicate(run, "--list").output
    adjudicate(run, "--attempt", "a", "--truth", "correct", "--minutes", 3)
    data = json.loads(adjudicate(run, "--list", "--json").output)
    assert data["waiting"] == []
    assert data["adjudications"][0]["minutes"] == 3


@pytest.mark.parametrize(
    "args,message",
    [
        (["--attempt", "missing", "--truth", "correct", "--minutes", "1"], "no finished attempt matches"),
        (["--attempt", "c", "--truth", "incorrect", "--minutes", "1"], "needs --category"),
        (["--truth", "correct"], "--attempt, --truth and --minutes are required"),
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
    adjudicate(run, "--attempt", first.attempt_id, "--truth", "correct", "--minutes", 1, "--category", "x")
    assert verify_run(run).ok
