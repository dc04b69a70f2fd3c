"""Runs recorded by an earlier version still verify, show and report.

`tests/data/recorded-runs.tar.xz` holds run directories recorded by version 0.1.0, before its messages were reworded: the four
agents of `ab demo`, and runs with monitor alerts, every breaker, budget stops, an operator, a recorded network proxy, models,
judges, several turns, an interruption, a resume and graded patches. Never regenerate it: that would make these tests prove
nothing. A change that breaks old runs needs a new archive beside this one.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentbench.cli.main import root
from agentbench.reports.adjudications import flagged_categories
from agentbench.reports.sources import open_run

pytestmark = pytest.mark.end_to_end

ARCHIVE = Path(__file__).parents[1] / "data" / "recorded-runs.tar.xz"
ATTEMPTS = {
    "breakers": 18,
    "command-gateway": 1,
    "command-gateway-error": 1,
    "demo-cheater": 5,
    "demo-noop": 5,
    "demo-partial": 5,
    "demo-reference": 5,
    "graded-bad-patch": 1,
    "graded-predictions": 3,
    "interrupted": 2,
    "judged-repeats": 2,
    "killed-and-resumed": 5,
    "model-says-forbidden": 1,
    "multi-turn-judged": 1,
    "network-proxy": 1,
    "no-workspace-judged": 1,
    "operator": 2,
    "redacted-patch": 1,
    "shared-cost-cap": 3,
    "stops": 12,
    "subagents": 1,
    "token-cap": 1,
}
each_run = pytest.mark.parametrize("name", sorted(ATTEMPTS))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    with tarfile.open(ARCHIVE) as archive:
        # Python 3.11 knows no filters before 3.11.4; newer versions warn without one.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)  # noqa: S202 - an archive of our own
    return folder


@each_run
def test_every_rejection_has_a_category(recorded: Path, name: str) -> None:
    """Error rates per category would otherwise lose adjudicated rejections."""
    for record in open_run(recorded / name).finals:
        assert bool(flagged_categories(record)) != record.result.passed, record.task_id


def ab(*arguments: str | Path) -> str:
    result = CliRunner().invoke(root, [str(one) for one in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_recorded_run_is_listed(recorded: Path) -> None:
    assert sorted(ATTEMPTS) == sorted(path.name for path in recorded.iterdir())


@pytest.mark.req("E-12", "M-03b")
@each_run
def test_recorded_run_verifies_and_every_decision_is_recomputed(recorded: Path, name: str) -> None:
    report = json.loads(ab("verify", recorded / name, "--json"))
    assert report["decision"] == "verified", report["problems"]
    assert report["attempts"] == report["recomputed"] == ATTEMPTS[name]
    assert report["not_recomputed"] == []


@each_run
def test_recorded_run_is_shown_and_summarised(recorded: Path, name: str) -> None:
    run = recorded / name
    assert ab("show", run)
    for line in (run / "attempts.jsonl").read_text(encoding="utf-8").splitlines():
        assert ab("show", run, "--task", json.loads(line)["task_id"])
    for form in ("md", "csv", "json", "junit"):
        assert ab("report", "summary", "--run", run, "--format", form)


@pytest.mark.parametrize(
    "a, b",
    [("demo-partial", "demo-reference"), ("demo-noop", "demo-cheater")],
)
def test_recorded_runs_are_compared(recorded: Path, a: str, b: str) -> None:
    for form in ("md", "csv", "json"):
        assert ab("report", "paired", "--run-a", recorded / a, "--run-b", recorded / b, "--format", form)
