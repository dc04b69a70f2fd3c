"""Details of a summary: strata, repeats, costs, time to success, enforced limits, reproducibility."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentbench.cli.show import command as show
from agentbench.reports.html.detail import Trace, detail
from agentbench.reports.provenance import evidence
from agentbench.reports.sources import open_run
from agentbench.reports.summary import summarise
from agentbench.reports.summary_data import as_json
from agentbench.reports.summary_markdown import as_markdown
from tests.record.samples import whole_run
from tests.reports.runs import record, run_dir

pytestmark = pytest.mark.synthetic


def write_evidence(
    run: Path, task: str, *, kind: str = "bugfix", url: str = "https://x/r.git", **protocol: object
) -> None:
    """Write the evidence of a task that summaries read."""
    folder = run / "tasks" / task
    folder.mkdir(parents=True)
    (folder / "task.yaml").write_text(f"id: {task}\nstrata: {{kind: {kind}, ecosystem: python}}\n", encoding="utf-8")
    planned = {
        "repository": {"url": url},
        "task": {"locked": False},
        "limits": {"wall_sec": {"value": 300, "origin": "environment.timeout_sec"}},
        "configuration": {"temperature": {"value": 0.2, "origin": "variant"}},
        "grading": {"cap_usd": 5.0},
    }
    observed = {
        "image_digest": "sha256:img",
        "lockfiles": {"uv.lock": "sha256:lock"},
        "enforcement": {"memory": "hard"},
    }
    manifest = {"replayable": True, "protocol_manifest": {"planned": planned, "observed": observed, **protocol}}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


@pytest.mark.req("A-07b", "C-13")
def test_strata_come_from_the_recorded_task_files(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record("a"), record("b", "fail"), record("c")])
    write_evidence(run, "a")
    write_evidence(run, "b")
    write_evidence(run, "c", kind="feature")
    found = {(one.dimension, one.value): one for one in summarise(open_run(run)).strata}
    assert found["kind", "bugfix"].contract.count == 1
    assert found["kind", "bugfix"].contract.total == 2
    assert found["kind", "feature"].tasks == 1
    assert found["ecosystem", "python"].cost == {"usd": 1.5}
    assert "| `kind` | `feature` | 1 | 1 of 1 |" in as_markdown(summarise(open_run(run)))


@pytest.mark.req("A-02")
def test_clustering_by_repository_widens_the_interval(tmp_path: Path) -> None:
    records = [record(f"t{n}", "pass" if n // 4 % 2 else "fail") for n in range(40)]
    run = run_dir(tmp_path / "run", records)
    for n in range(40):
        write_evidence(run, f"t{n}", url=f"https://x/{n // 4}.git")
    summary = summarise(open_run(run))
    assert summary.by_repository is not None
    assert summary.rates.contract.interval is not None
    wide, narrow = (one.high - one.low for one in (summary.by_repository, summary.rates.contract.interval))
    assert wide > narrow
    assert "Wilson, clustered by repository" in as_markdown(summary)


def test_few_repositories_give_a_note_and_no_interval(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record(f"t{n}", "pass" if n % 2 else "fail") for n in range(12)])
    for n in range(12):
        write_evidence(run, f"t{n}", url=f"https://x/{n // 4}.git")
    summary = summarise(open_run(run))
    assert summary.by_repository is None
    note = "The tasks come from 3 repositories, and the intervals treat tasks as independent: clustering by repository needs at least 10 repositories."
    assert note in as_markdown(summary)


def test_one_repository_gives_no_interval_by_repository(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record(f"t{n}", "pass" if n % 2 else "fail") for n in range(6)])
    for n in range(6):
        write_evidence(run, f"t{n}", url="https://x/lib.git")
    assert summarise(open_run(run)).by_repository is None


@pytest.mark.req("A-08", "A-09a", "L-06")
def test_caps_artifacts_and_deviations_are_listed(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record("a"), record("b", harness_version="0.2.0")])
    write_evidence(run, "a", deviations=["network was open in setup"])
    write_evidence(run, "b")
    text = as_markdown(summarise(open_run(run)))
    first = text.splitlines()[0]
    assert first.endswith("[PROVISIONAL]")
    for part in (
        "network was open in setup (1 task)",
        "different harness versions: 0.1.0, 0.2.0",
        "cap `wall_sec`: `300 (environment.timeout_sec)` (2 tasks)",
        "cap `cap_usd`: `5.0`",
        "sandbox limit `memory`: `hard`",
        "lock file `uv.lock` of `a`: `sha256:lock`",
        "`image`: `sha256:img`",
        "agent parameter `temperature`: `0.2 (variant)`",
        "agent phase 900 s, one command 120 s: 2 attempts",
        "2 tasks have no task.lock.json (write it with ab task lock)",
    ):
        assert part in text, part


@pytest.mark.req("A-06", "A-07a", "A-07b")
def test_costs_times_and_time_to_success_are_reported(tmp_path: Path) -> None:
    cost = {"lm": 0.2, "exec": 0.1, "human": 0.05, "overhead": 0.05, "judge": 0.1, "total": 0.5}
    usage = {"prompt_tokens": 1000, "completion_tokens": 50, "model_requests": 3, "wall_sec": 10.0}
    records = [
        record(f"t{n}", kind, cost=cost, usage={**usage, "wall_sec": 10.0 + n})
        for n, kind in enumerate(["pass", "pass", "fail", "harness"])
    ]
    summary = summarise(open_run(run_dir(tmp_path / "run", records)))
    (spent,) = summary.spending
    assert (round(spent.lm, 9), spent.total, spent.per_pass) == (0.8, 2.0, 1.0)
    assert [step.survival for step in summary.time_to_success.steps] == [0.75, 0.5]
    text = as_markdown(summary)
    assert "| `usd` | 0.8 | 0.4 | 0.2 | 0.2 | 0.4 | 2 | 1 |" in text
    assert "Agent time to success: median 11 s" in text
    assert "1 of 4 attempts (25.0%) undecided." in text
    assert "between 50.0% (if all of these fail) and 75.0% (if all of these pass)" in text
    assert "Mean tokens per task: 1050." in text


@pytest.mark.req("A-01", "A-02")
def test_repeats_flaky_tasks_and_gate_vectors(tmp_path: Path) -> None:
    records = [record("even", kind, n) for n, kind in enumerate(["pass", "fail", "pass"], 1)]
    records += [record("firm", "pass", n) for n in (1, 2, 3)]
    summary = summarise(open_run(run_dir(tmp_path / "run", records)))
    assert [line.task for line in summary.flaky] == ["even"]
    assert [(one.k, round(one.any_of, 4), round(one.all_of, 4)) for one in summary.pass_k] == [
        (1, 0.8333, 0.8333), (2, 1.0, 0.6667), (3, 1.0, 0.5),
    ]  # fmt: skip
    text = as_markdown(summary)
    assert "`even`: 2 of 3 passed" in text
    assert "| pass | pass | pass | pass | 5 |" in text
    assert "Assurance level (of the weakest mandatory check): per_test 6." in text
    assert as_json(summary)["pass_k"]


def test_evidence_paths_stay_inside_the_run(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    run = tmp_path / "run"
    run.mkdir()
    (run / "link").symlink_to(tmp_path / "secret")
    assert evidence(run, "tasks/x") == run / "tasks/x"
    for bad in ("../secret", "/etc/passwd", "a/../../secret", "link/file", "", "a\0b"):
        assert evidence(run, bad) is None, bad


def test_broken_evidence_does_not_stop_a_summary(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record("a"), record("b"), record("c")])
    for task, manifest, yaml in (
        ("a", "{", "strata: ["),
        ("b", "[1]", "strata: 3"),
        ("c", '{"protocol_manifest": 1}', "- strata"),
    ):
        (run / "tasks" / task).mkdir(parents=True)
        (run / "tasks" / task / "manifest.json").write_text(manifest, encoding="utf-8")
        (run / "tasks" / task / "task.yaml").write_text(yaml, encoding="utf-8")
    assert as_markdown(summarise(open_run(run))).startswith("# 3 of 3 passed")


def _laughs(width: int = 10, levels: int = 9) -> str:
    lists = (f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels))
    return "\n".join(["a0: &a0 [ha]", *lists, f"title: *a{levels - 1}", "strata: {}"])


def _merges(width: int = 10, levels: int = 9) -> str:
    maps = (f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * width)}]}}" for n in range(1, levels))
    return "\n".join(["a0: &a0 {x: 1}", *maps, "strata: {}"])


@pytest.mark.parametrize(
    "text",
    [_laughs(), _merges(), f"title: 0x{'f' * 6000}\nstrata: {{kind: 0x{'f' * 6000}}}"],
    ids=["lists", "merges", "number"],
)
def test_hostile_task_file_does_not_stop_reports(text: str, tmp_path: Path) -> None:
    run = whole_run(tmp_path)
    opened = open_run(run)
    (run / opened.finals[0].artifact_paths.task_dir / "task.yaml").write_text(text, encoding="utf-8")
    tracemalloc.start()
    try:
        assert as_markdown(summarise(open_run(run)))
        assert len(str(detail(opened.finals[0], opened, Trace())["task"])) < 20_000
        assert tracemalloc.get_traced_memory()[1] < 200_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.req("A-11a")
def test_show_writes_one_attempt_as_one_page(tmp_path: Path) -> None:
    run = whole_run(tmp_path / "runs")
    page = tmp_path / "attempt.html"
    result = CliRunner().invoke(show, [str(run), "--task", "toy", "--html", str(page)], catch_exceptions=False)
    assert result.output.strip() == str(page)
    text = page.read_text(encoding="utf-8")
    assert '"single":' in text
    assert "tool_call_started" in text
    assert CliRunner().invoke(show, [str(run), "--html", str(page)]).exit_code != 0
