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
from agentbench.reports.summary_text import as_markdown
from tests.record.samples import whole_run
from tests.reports.runs import record, run_dir


def adjudicate(*args: object) -> Result:
    return CliRunner().invoke(command, [str(one) for one in args])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    records = [record("a", "fail", needs_review=True), record("b", "fail"), record("c", "pass"), record("d", "policy")]
    return run_dir(tmp_path / "run", records)


@pytest.mark.req("A-05", "G-17")
def test_findings_are_kept_counted_per_category_and_metered(run: Path) -> None:
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
    found = summarise(open_run(run))
    truth = {
        one.category: (one.false_positive.count, one.false_positive.total, one.false_negative.count)
        for one in found.truth
    }
    assert truth == {"TESTS_FAILED": (1, 2, 0), "invariant_violation": (0, 0, 1)}
    text = as_markdown(found)
    assert "4 adjudications, 18.5 minutes of reviewers" in text
    assert "| `TESTS_FAILED` | 1 of 2 |" in text
    assert (run / "attempts.jsonl").read_bytes() == before, "verdicts stay as they are"


def test_a_later_finding_of_the_same_reviewer_replaces_the_earlier(run: Path) -> None:
    for truth in ("correct", "incorrect"):
        adjudicate(run, "--attempt", "a", "--truth", truth, "--minutes", 1, "--reviewer", "r")
    adjudicate(run, "--attempt", "a", "--truth", "correct", "--minutes", 1, "--reviewer", "other")
    assert [one.truth for one in read_adjudications(run)] == ["incorrect", "correct"]
    assert len((run / "adjudications.jsonl").read_bytes().splitlines()) == 3


def test_the_list_shows_what_waits(run: Path) -> None:
    assert "0 adjudicated, 0 minutes; 1 waiting" in adjudicate(run, "--list").output
    adjudicate(run, "--attempt", "a", "--truth", "correct", "--minutes", 3)
    found = json.loads(adjudicate(run, "--list", "--json").output)
    assert found["waiting"] == []
    assert found["adjudications"][0]["minutes"] == 3


@pytest.mark.parametrize(
    "args,message",
    [
        (["--attempt", "nobody", "--truth", "correct", "--minutes", "1"], "no finished attempt fits"),
        (["--attempt", "c", "--truth", "incorrect", "--minutes", "1"], "name its kind with --category"),
        (["--truth", "correct"], "needs --attempt, --truth and --minutes"),
        (["--attempt", "a", "--truth", "correct", "--minutes", "1", "--note", "x" * 20_000], "note"),
        (["--attempt", "a", "--truth", "correct", "--minutes", "nan"], "minutes"),
    ],
)
def test_what_cannot_be_noted_is_refused(run: Path, args: list[str], message: str) -> None:
    result = adjudicate(run, *args)
    assert isinstance(result.exception, InputError), result.output
    assert message in result.exception.message
    assert not (run / "adjudications.jsonl").exists()


def test_a_torn_line_is_dropped_and_a_broken_one_is_named(run: Path) -> None:
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


def test_findings_and_reports_do_not_disturb_the_audit(tmp_path: Path) -> None:
    run = whole_run(tmp_path / "runs")
    (first, *_) = open_run(run).rows
    adjudicate(run, "--attempt", first.attempt_id, "--truth", "correct", "--minutes", 1, "--category", "x")
    assert verify_run(run).ok
