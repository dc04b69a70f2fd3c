"""Bad input and failures: a clear message or a record, the right exit code, nothing lost."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.execution.conftest import Ab
from tests.execution.tasks import TASK, make_suite, make_task

pytestmark = pytest.mark.end_to_end


@pytest.fixture
def task(tmp_path: Path) -> Path:
    return make_task(tmp_path / "task")


# --- before anything runs ---------------------------------------------------------------------------------------------


def test_missing_task_is_named(ab: Ab) -> None:
    ran = ab("run-task", "--task", "nowhere", "--agent", "noop")
    assert ran.code == 2
    assert "nowhere" in ran.stderr


def test_unknown_agent_creates_no_run_directory(ab: Ab, task: Path, tmp_path: Path) -> None:
    ran = ab("run-task", "--task", task, "--agent", "noob", "--out", tmp_path / "out")
    assert ran.code == 2
    assert "did you mean" in ran.stderr
    assert "noop" in ran.stderr
    assert not (tmp_path / "out").exists()


def test_unknown_command_suggests_the_nearest(ab: Ab) -> None:
    ran = ab("rnu")
    assert ran.code == 2
    assert "run" in ran.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--agent", "command"),
        ("--agent", "noop", "--agent-command", "true"),
        ("--agent", "command", "--agent-command", "true", "--agent-files", "nowhere"),
        ("--agent", "noop", "--workers", "0"),
        ("--agent", "noop", "--variant", "baseline"),
        ("--agent", "scripted", "--script", "nowhere.yaml"),
        ("--agent", "scripted", "--script", "task/task.yaml"),
        ("--agent", "noop", "--script", "task/task.yaml"),
        ("--agent", "llm_v0", "--model", "scripted:task"),
        ("--agent", "noop", "--temperature", "9"),
        ("--agent", "noop", "--temperature", "nan"),
        ("--agent", "noop", "--model-patience", "nan"),
        ("--agent", "noop", "--model", "openaii:gpt"),
        ("--agent", "noop", "--model", "m@127.0.0.1:8000/v1"),
        ("--agent", "noop", "--prices", "task/task.yaml"),
        ("--agent", "noop", "--judge-model", "scripted:nowhere.yaml"),
    ],
)
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_mistakes_are_rejected_before_anything_runs(
    ab: Ab, task: Path, tmp_path: Path, arguments: tuple[str, ...], dry: tuple[str, ...]
) -> None:
    ran = ab("run-task", "--task", task, *arguments, *dry, "--out", tmp_path / "out")
    assert ran.code == 2, ran.stdout
    assert ran.stderr.strip()
    assert "input_value" not in ran.stderr
    assert not (tmp_path / "out").exists()


def test_all_mistakes_are_listed(ab: Ab, tmp_path: Path) -> None:
    tasks = make_suite(tmp_path / "tasks", "one", "two")
    run = ("run", "--suite", "tiny", "--tasks-dir", tasks)
    scripts = ab(*run, "--agent", "scripted")
    assert scripts.code == 2
    assert all(f"no script for agent 'scripted' and task '{name}'" in scripts.stderr for name in ("one", "two"))
    script = ab(*run, "--agent", "scripted", "--script", tmp_path / "missing.yaml")
    assert (script.code, script.stderr) == (2, f"error: --script {tmp_path / 'missing.yaml'} does not exist\n")
    nowhere = ab("grade", "--task", "nowhere", "--patch", "some.patch")
    assert (nowhere.code, "nowhere does not exist" in nowhere.stderr) == (2, True)
    (tmp_path / "a.yaml").write_text("name: a\nagnet: noop\nlimits: {max_steps: many}\n")
    (tmp_path / "b.yaml").write_text("name: b\nagent: command\n")
    variants = ab(*run, "--variant", tmp_path / "a.yaml", "--variant", tmp_path / "b.yaml")
    assert variants.code == 2
    for problem in (
        "a.yaml:2: agnet: unknown key",
        "a.yaml:3: limits.max_steps: expected a whole number",
        "b has no command",
    ):
        assert problem in variants.stderr, variants.stderr
    (tmp_path / "script.yaml").write_text("steps: [{runn: {command: ls}}]\n")
    (tmp_path / "prices.csv").write_text("action_type,unit,unit_price\nllm,call,1\n")
    models = ("--model", "openaii:x", "--judge-model", "foo:x", "--prices", tmp_path / "prices.csv")
    for dry in ((), ("--dry-run",)):
        agent = ("--agent", "scripted", "--script", tmp_path / "script.yaml")
        several = ab(*run, *agent, *models, "--fail-on", "nothing>1", *dry)
        assert several.code == 2
        for problem in (
            "error: 5 problems, nothing was started",
            "--fail-on: unknown metric 'nothing'",
            "script.yaml:1: steps[0].runn: unknown tool",
            "prices.csv:2: action_type: expected one of",
            "--model openaii:x: unknown provider",
            "--judge-model foo:x: unknown provider",
        ):
            assert problem in several.stderr, several.stderr


def test_dry_run_refuses_a_folder_that_the_run_cannot_write(ab: Ab, task: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    for out, reason in (
        ("file/runs", "file is not a folder"),
        ("run", "run directory"),
    ):
        ran = ab("run-task", "--task", task, "--agent", "noop", "--dry-run", "--out", out)
        assert (ran.code, reason in ran.stderr) == (2, True), ran.stderr
    assert ab("run-task", "--task", task, "--agent", "noop", "--dry-run", "--out", "new/runs").code == 0
    assert not (tmp_path / "new").exists()


@pytest.mark.req("C-04a")
def test_task_with_an_image_needs_docker(ab: Ab, tmp_path: Path) -> None:
    text = TASK.format(id="answer").replace("{timeout_sec", "{docker_image: no/such:image, timeout_sec")
    task = make_task(tmp_path / "task", text=text)
    ran = ab("run-task", "--task", task, "--agent", "noop", env={"DOCKER_HOST": "unix:///nowhere.sock"})
    assert ran.code == 3
    assert "--sandbox bwrap" in ran.stderr
    ignored = ab.run_task(task, "--agent", "reference", "--sandbox", "bwrap")
    assert ignored.record["result"]["passed"] is True
    assert "ignores the image of answer" in ignored.stderr


def test_missing_bubblewrap_is_reported_with_a_remedy(ab: Ab, task: Path) -> None:
    ran = ab("run-task", "--task", task, "--agent", "noop", env={"PATH": "/nowhere"})
    assert ran.code == 3
    assert "bubblewrap" in ran.stderr


def test_unwritable_output_folder_is_an_input_error(ab: Ab, task: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = ab("run-task", "--task", task, "--agent", "noop", "--out", tmp_path / "file" / "runs")
    assert ran.code in {2, 3}
    assert str(tmp_path / "file") in ran.stderr


def test_hard_disk_limit_can_be_required(ab: Ab, tmp_path: Path) -> None:
    ran = ab(
        "run-task",
        "--task",
        make_task(tmp_path / "t", more="policy: {require_limits: {disk: hard}}"),
        "--agent",
        "noop",
    )
    assert ran.code == 0


def test_invalid_host_is_rejected_with_its_place(ab: Ab, tmp_path: Path) -> None:
    text = TASK.format(id="answer").replace(
        "{timeout_sec", "{network_policy: always, network_allow: ['http://x.org/'], timeout_sec"
    )
    ran = ab("run-task", "--task", make_task(tmp_path / "t", text=text), "--agent", "noop")
    assert ran.code == 2
    assert "network_allow" in ran.stderr


# --- errors of the task -----------------------------------------------------------------------------------------------


@pytest.mark.req("C-15", "G-07")
def test_passing_baseline_is_invalid(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task", text=TASK.format(id="answer").replace("-qx 42", "-qx 41"))
    record = ab.run_task(task, "--agent", "noop").record
    assert record["run_status"] == "invalid"
    assert record["invalid_cause"] == "task"
    assert record["result"]["failure_reason"] == "BASELINE_NOT_FAILING"


@pytest.mark.req("C-05", "G-07", "R-13")
def test_failed_setup_is_invalid_and_keeps_its_output(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task", more="setup: {commands: ['echo from-setup; exit 7']}")
    ran = ab.run_task(task, "--agent", "noop")
    record = ran.record
    # No attempt has a result, through no fault of the agent.
    assert ran.code == 2
    assert (record["run_status"], record["invalid_cause"]) == ("invalid", "task")
    assert record["result"]["failure_reason"] == "SETUP_FAILED"
    logs = Path(ran.json["run_dir"]) / record["artifact_paths"]["task_dir"] / "logs"
    assert "from-setup" in (logs / "setup_stdout.txt").read_text()
    assert ab("verify", ran.json["run_dir"]).code == 0


@pytest.mark.req("G-01", "G-14")
def test_missing_check_command_is_an_error_of_the_task(ab: Ab, tmp_path: Path) -> None:
    text = TASK.format(id="answer").replace("grep -qx 42 answer.txt", "no-such-program --check")
    record = ab.run_task(make_task(tmp_path / "task", text=text), "--agent", "reference").record
    assert record["result"]["passed"] is False
    assert record["attribution"] != "agent"
    assert record["run_status"] in {"invalid", "acceptance_error"}


@pytest.mark.req("C-03d")
@pytest.mark.parametrize(
    "repo",
    [
        "{url: nowhere.git, commit: 0123456789012345678901234567890123456789}",
        "{archive: release.tar.gz, sha256: '" + "0" * 64 + "'}",
    ],
)
def test_unavailable_source_is_invalid(ab: Ab, tmp_path: Path, repo: str) -> None:
    task = make_task(tmp_path / "task", text=TASK.format(id="answer").replace("{path: repo}", repo))
    (task / "release.tar.gz").write_bytes(b"not an archive")
    ran = ab("run-task", "--task", task, "--agent", "noop", "--json")
    assert ran.code == 2
    if not ran.stdout:  # an error that needs no run to find is an input error
        assert "repo" in ran.stderr
        return
    assert ran.record["result"]["failure_reason"] == "SETUP_FAILED"
    assert ran.record["invalid_cause"] == "task"


@pytest.mark.req("C-03a")
def test_missing_commit_is_named(ab: Ab, tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    subprocess.run(["git", "init", "-q", origin], check=True)
    (origin / "answer.txt").write_text("41\n")
    identity = ["-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run(["git", "-C", origin, "add", "."], check=True)
    subprocess.run(["git", "-C", origin, *identity, "commit", "-qm", "one"], check=True)
    missing = "f" * 40
    text = TASK.format(id="answer").replace("{path: repo}", f"{{url: ../origin, commit: {missing}}}")
    record = ab.run_task(make_task(tmp_path / "task", text=text), "--agent", "noop").record
    assert record["result"]["failure_reason"] == "SETUP_FAILED"
    assert missing in record["termination"]["rationale"]
    head = subprocess.run(["git", "-C", origin, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    text = text.replace(missing, head.stdout.strip())
    assert ab.run_task(make_task(tmp_path / "good", text=text), "--agent", "reference").record["result"]["passed"]


# --- hostile agents ---------------------------------------------------------------------------------------------------

HOSTILE = {
    "hangs": "sleep 1000",
    "floods": "yes | head -c 300000000",
    "daemonises": "(setsid sh -c 'trap \"\" TERM; sleep 1000' >/dev/null 2>&1 &)",
    "deletes": "rm -rf /workspace/* /workspace/.[a-z]*",
    "links": "rm -rf /workspace; ln -s /etc /workspace; ln -sf /etc/passwd answer.txt",
    "fills": "i=0; while [ $i -lt 20000 ]; do : > f$i; i=$((i+1)); done",
    "names": "printf x > \"$(printf 'a\\377b')\"; printf x > \"$(printf 'new\\nline')\"; printf x > ./-rf",
    "crashes": "kill -SEGV $$",
    "exits": "exit 7",
    "fifo": "mkfifo pipe; rm answer.txt; mkfifo answer.txt",
    "bomb": "head -c 200000000 /dev/zero > big",
}


@pytest.mark.req("R-06", "R-13", "G-15")
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_agent_gets_a_failed_record(ab: Ab, tmp_path: Path, kind: str) -> None:
    text = TASK.format(id="answer")
    if kind == "hangs":
        text = text.replace("timeout_sec: 120, tool", "timeout_sec: 2, tool")
    ran = ab.by_command(make_task(tmp_path / "task", text=text), HOSTILE[kind])
    record = ran.record
    assert ran.code == 0
    assert record["result"]["passed"] is False
    assert record["run_status"] == "failure", record["termination"]
    assert record["attribution"] == "agent"
    assert {gate["outcome"] for gate in record["gates"].values()} <= {"pass", "fail"}
    assert ab("verify", ran.json["run_dir"]).code == 0


@pytest.mark.req("R-10")
def test_hanging_agent_is_ended_by_the_wall_clock(ab: Ab, tmp_path: Path) -> None:
    text = TASK.format(id="answer").replace("timeout_sec: 120, tool", "timeout_sec: 1, tool")
    record = ab.by_command(make_task(tmp_path / "task", text=text), "sleep 100").record
    assert record["termination"]["code"] == "wall_cap"
    assert record["termination"]["evidence"]
    assert record["result"]["failure_reason"] in {"TIMEOUT", "BUDGET_EXHAUSTED"}


@pytest.mark.req("M-11")
def test_timed_out_agent_is_graded_on_its_work(ab: Ab, tmp_path: Path) -> None:
    text = TASK.format(id="answer").replace("timeout_sec: 120, tool", "timeout_sec: 10, tool")
    record = ab.by_command(make_task(tmp_path / "task", text=text), "echo 42 > answer.txt; sleep 100").record
    assert record["result"]["passed"] is True
    assert record["termination"]["code"] == "wall_cap"


# --- the disk ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """A file system of 1 MiB; mounting it needs root."""
    if os.geteuid() != 0:
        pytest.skip("a small file system needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=False).returncode:
        pytest.skip("tmpfs cannot be mounted here")
    return folder


@pytest.mark.req("R-13")
def test_full_disk_ends_the_run_and_keeps_its_records(ab: Ab, task: Path, small_disk: Path) -> None:
    try:
        first = ab.run_task(task, "--agent", "reference", "--out", small_disk)
        assert first.record["result"]["passed"] is True
        free = os.statvfs(small_disk)
        (small_disk / "filler").write_bytes(b"x" * (free.f_bavail * free.f_frsize - 12 * 4096))
        ran = ab("run-task", "--task", task, "--agent", "reference", "--out", small_disk)
        assert ran.code == 3
        assert "space" in ran.stderr
        (small_disk / "filler").unlink()
        assert ab("verify", first.json["run_dir"]).code == 0
    finally:
        subprocess.run(["umount", small_disk], check=True)


# --- suites -----------------------------------------------------------------------------------------------------------


def test_broken_task_in_a_suite_is_named_with_its_line(ab: Ab, tmp_path: Path) -> None:
    make_suite(tmp_path / "tasks", "good", "bad")
    file = tmp_path / "tasks" / "tiny" / "bad" / "task.yaml"
    file.write_text(file.read_text() + "tytle: no\n")
    ran = ab("run", "--suite", "tiny", "--agent", "noop")
    assert ran.code == 2
    assert "bad/task.yaml:" in ran.stderr
    assert "did you mean" in ran.stderr


def test_unknown_suite_lists_known_suites(ab: Ab, tmp_path: Path) -> None:
    make_suite(tmp_path / "tasks", "one")
    ran = ab("run", "--suite", "tinny", "--agent", "noop")
    assert ran.code == 2
    assert "tiny" in ran.stderr
