"""`ab run --stop-when decided`: stops at a look, whatever the workers do, and resumes the rule that was declared."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.execution.conftest import Ab, Interrupt, Ran
from tests.execution.tasks import make_suite
from tests.execution.test_interruption import wait_for

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]

TASKS = [f"t{number:02}" for number in range(1, 15)]
RUN = ("run", "--suite", "tiny", "--variant", "old", "--variant", "new")
RULE = ("--stop-when", "decided", "--stop-rule", "pocock", "--looks", "2")
"""With 14 tasks the first look is at 7 blocks, where 7 wins of 7 are significant."""


def prepare(folder: Path, *tasks: str, new: str = "echo 42 > answer.txt") -> Path:
    """Create a suite, and two variants of which only the new one solves it."""
    make_suite(folder / "tasks", *tasks)
    variants = folder / "configs" / "variants"
    variants.mkdir(parents=True)
    agent = folder / "agent"
    agent.mkdir()
    (agent / "go.sh").write_text(new + "\n")
    (variants / "old.yaml").write_text('{name: old, command: "true"}')
    (variants / "new.yaml").write_text('{name: new, command: sh "$AB_AGENT_FILES/go.sh", files: ../../agent}')
    return agent


def made(ran: Ran) -> set[tuple[str, str, int]]:
    return {(record["task_id"], record["variant"], record["repeat"]) for record in ran.json["attempts"]}


def run_json(path: str) -> dict[str, Any]:
    value = json.loads((Path(path) / "run.json").read_text())
    assert isinstance(value, dict)
    return value


def test_run_stops_when_the_rule_has_decided(ab: Ab, tmp_path: Path) -> None:
    prepare(tmp_path, *TASKS)
    ran = ab(*RUN, *RULE, "--margin", "0.1", "--workers", "3", "--json")
    assert ran.code == 0, ran.stderr
    old, new = ran.json["run_dirs"]
    plan = run_json(old)
    # The rule and the maximum are in run.json of both, which no later step changes.
    assert plan["request"]["stop_when"] == run_json(new)["request"]["stop_when"]
    assert plan["request"]["stop_when"]["spending"] == "pocock"
    assert len(plan["order"]) == 28
    # Exactly the first seven blocks of the plan were made.
    assert made(ran) == {tuple(key) for key in plan["order"][:14]}
    assert ran.json["stop_reason"].startswith("Stopped after 14 of 28 planned attempts: new is better at look 1 of 2")
    for run in (old, new):
        assert '"better":"new"' in (Path(run) / "events.jsonl").read_text()
        verified = ab("verify", run)
        assert (verified.code, "stopping rule recomputed: new is better at look 1 of 2" in verified.stdout) == (0, True)
    listed = ab("runs", "ls").stdout
    assert listed.count("7 of at most 14") == listed.count("finished") == 2
    report = ab("report", "paired", old, new)
    assert report.stdout.startswith("# B IS BETTER: new − old = +100.0 points (adjusted 95% CI ")
    assert "Look 1 of 2, 14 of 28 planned attempts" in report.stdout
    assert "not adjusted for the looks" in report.stdout
    # A finished comparison is not continued, and its records are not replaced.
    again = ab("run", "--resume", new, "--json")
    assert (again.code, made(again)) == (0, made(ran)), again.stderr
    refused = ab("retry", old)
    assert (refused.code, "has a stopping rule" in refused.stderr) == (2, True)


def test_a_killed_comparison_resumes_with_its_rule(ab: Ab, tmp_path: Path, interrupt: Interrupt) -> None:
    agent = prepare(tmp_path, *TASKS, new="sleep 3600")
    for file in (tmp_path / "tasks").glob("*/*/task.yaml"):
        # Only the test may end the agent, however busy the machine is.
        file.write_text(file.read_text().replace("{timeout_sec: 120,", "{timeout_sec: 900,"))
    process = ab.start(*RUN, *RULE, "--workers", "2")
    runs = tmp_path / "artifacts" / "runs"
    wait_for(lambda: len(list(runs.glob("*__new__*/tasks/*/events.jsonl"))) >= 1 and bool(finished(runs, "old")))
    interrupt(process, signal.SIGKILL)
    (agent / "go.sh").write_text("echo 42 > answer.txt\n")
    (new,) = runs.glob("*__new__*")
    for option in (("--looks", "5"), ("--margin", "0.3"), ("--stop-when", "decided")):
        refused = ab("run", "--resume", new, *option)
        assert (refused.code, f"{option[0]} cannot be changed when resuming" in refused.stderr) == (2, True)
    ran = ab("run", "--resume", new, "--workers", "2", "--json")
    assert ran.code == 0, ran.stderr
    assert made(ran) == {tuple(key) for key in run_json(str(new))["order"][:14]}
    assert "new is better at look 1 of 2" in ran.json["stop_reason"]
    for path in ran.json["run_dirs"]:
        assert ab("verify", path).code == 0
    shutil.move(ran.json["run_dirs"][0], tmp_path / "elsewhere")
    alone = ab("run", "--resume", new)
    assert (alone.code, "expected the runs of 2 methods" in alone.stderr) == (2, True)
    assert "not recomputed: stopping decision: the run of old" in ab("verify", new).stdout


def finished(runs: Path, variant: str) -> list[str]:
    return [line for file in runs.glob(f"*__{variant}__*/attempts.jsonl") for line in file.read_text().splitlines()]


def test_dry_run_states_the_rule_and_its_maximum(ab: Ab, tmp_path: Path) -> None:
    prepare(tmp_path, *TASKS)
    dry = ab(*RUN, *RULE, "--dry-run")
    assert dry.code == 0, dry.stderr
    assert "group sequential with Pocock spending, 2 looks at 7, 14 blocks, alpha 0.05 two-sided" in dry.stdout
    assert "at most 28; expected" in dry.stdout
    few = ab(*RUN, "--stop-when", "decided", "--limit", "5", "--dry-run", "--json")
    assert few.json["stopping"]["can_decide"] is False
    assert few.json["stopping"]["warning"].endswith("; it needs at least 6 tasks")
    assert not (tmp_path / "artifacts").exists()


@pytest.mark.parametrize(
    "options, problem",
    [
        (("--variant", "old", "--stop-when", "decided"), "compares exactly two variants, got 1"),
        (("--agent", "noop", "--stop-when", "decided"), "compares exactly two variants, got 0"),
        (("--variant", "old", "--variant", "new", "--margin", "0.1"), "--margin needs --stop-when decided"),
        ((*RUN[3:], "--stop-when", "decided", "--looks", "3"), "3 looks need at least 3 blocks, the plan has 2"),
        ((*RUN[3:], "--stop-when", "decided", "--margin", "1.5"), "--margin"),
        (
            (*RUN[3:], *RULE[:2], "--stop-rule", "anytime", "--futility", "0.2"),
            "--futility needs a group sequential rule",
        ),
        ((*RUN[3:], "--stop-when", "decided", "--limit", "1"), "at least 2 tasks"),
    ],
)
def test_bad_rules_are_refused_before_anything_runs(
    ab: Ab, tmp_path: Path, options: tuple[str, ...], problem: str
) -> None:
    prepare(tmp_path, "one", "two")
    ran = ab("run", "--suite", "tiny", *options)
    assert (ran.code, problem in ran.stderr) == (2, True), ran.stderr
    assert not (tmp_path / "artifacts").exists()
