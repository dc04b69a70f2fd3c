"""Runs on a real Ray cluster whose nodes share nothing: equal to local runs, with keys and hidden tests in one place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentbench.record.run_directory import RunDirectory
from agentbench.sandbox.docker.engine import find_engine
from tests.execution.cluster.conftest import RayAb
from tests.execution.cluster.ray_nodes import ROOT, Cluster
from tests.execution.tasks import TASK, make_suite, make_task
from tests.execution.test_budget import REQUEST, answers
from tests.execution.test_cli_agents import ANSWERS, ROOMY, SMALL
from tests.execution.test_scorers_and_judge import ANSWER
from tests.execution.test_stopping import RULE, RUN, TASKS, prepare
from tests.execution.test_vault import TOKEN
from tests.sandbox.conftest import remove_images, require_docker

pytestmark = [pytest.mark.slow, pytest.mark.end_to_end, pytest.mark.req("R-14b"), pytest.mark.timeout(600)]

KEY = "sk-cluster-" + "k" * 30
HIDDEN = "the hidden expectation of task"
TIMES_AND_IDS = {
    *("attempt_id", "run_id", "study_id", "trace_head", "duration_sec", "started_at", "ended_at", "cost"),
    *("check_sec", "tool_sec", "wall_sec", "setup_sec", "exec_sec", "lm_sec", "latency_sec", "supersedes"),
    # Which attempt finds a cold cache depends on the order in which they end, and shifts the numbers of events.
    *("cached", "evidence"),
}


def comparable(value: Any) -> Any:
    """Return a record without times and ids."""
    if isinstance(value, dict):
        return {name: comparable(inner) for name, inner in value.items() if name not in TIMES_AND_IDS}
    return [comparable(inner) for inner in value] if isinstance(value, list) else value


def by_key(run: Path) -> dict[tuple[str, str, int], Any]:
    return {record.key: comparable(record.model_dump(mode="json")) for record in RunDirectory.open(run).finals()}


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = (folder / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["type"] == kind]


def the_run(ab: RayAb, out: str) -> Path:
    (run,) = (ab.cwd / out).iterdir()
    return run


def hide_a_test(task: Path) -> None:
    """Give a task a hidden file without which no patch passes."""
    file = task / "task.yaml"
    command = 'command: "test -f hidden.txt && grep -qx 42 answer.txt"'
    text = file.read_text().replace("  checks:\n", "  hidden: hidden\n  checks:\n")
    file.write_text(text.replace('command: "grep -qx 42 answer.txt"', command))
    (task / "hidden").mkdir()
    (task / "hidden" / "hidden.txt").write_text(f"{HIDDEN} {task.name}\n")


@pytest.fixture
def service(cluster: Cluster) -> Iterator[str]:
    """Start a model service in the network of the driver, and return its address."""
    line = cluster.inside(sys.executable, "-m", "tests.execution.cluster.echo_service")
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


@contextmanager
def watched_disks(cluster: Cluster, *texts: str) -> Iterator[set[str]]:
    """Search the disks of all nodes for texts, again and again, and once at the end."""
    found: set[str] = set()
    over = threading.Event()

    def search() -> None:
        found.update(cluster.on_disk(*texts))

    def watch() -> None:
        while not over.wait(0.5):
            search()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()
        search()


def test_ray_gives_the_records_of_a_local_run_with_a_limited_rate_and_no_node_has_a_secret(
    ab: RayAb, cluster: Cluster, tmp_path: Path, service: str
) -> None:
    make_suite(tmp_path / "tasks", "one", "two")
    for name in ("one", "two"):
        hide_a_test(tmp_path / "tasks" / "tiny" / name)
    env = {"AB_MODEL_BASE_URL": service, "AB_MODEL_API_KEY": KEY}
    options = ("run", "--suite", "tiny", "--workers", "3", "--repeats", "2", "--agent", "llm_v0", "--model", "url:echo")
    local = ab.inside(*options, "--out", "local", env=env)
    assert local.code == 0, local.stderr
    with watched_disks(cluster, KEY, HIDDEN) as found:
        ray = ab.on_ray(*options, "--out", "ray", env=env)
    assert ray.code == 0, ray.stderr
    assert found == set()
    assert "cluster: 2 nodes: 10.77.0.1, 10.77.0.2" in ray.stderr
    local_run, ray_run = the_run(ab, "local"), the_run(ab, "ray")
    assert by_key(ray_run) == by_key(local_run)
    assert [record["result"]["passed"] for record in by_key(ray_run).values()] == [True] * 4
    # All nodes wait together for the service, and it is announced once.
    for stderr in (local.stderr, ray.stderr):
        assert stderr.count("is unavailable: ") == stderr.count(" answers again") == 1, stderr
    for run in (local_run, ray_run):
        verified = ab("verify", run)
        assert verified.code == 0, verified.stdout
    files = {path.relative_to(ray_run) for path in ray_run.rglob("*") if "blobs" not in path.parts}
    assert files == {path.relative_to(local_run) for path in local_run.rglob("*") if "blobs" not in path.parts}
    # The service repeated the key: it got it from the driver, and no node has it.
    kept = b"".join(path.read_bytes() for path in ray_run.rglob("*") if path.is_file())
    assert b"Your key is Bearer [redacted" in kept
    assert KEY.encode() not in kept
    assert cluster.owners("one", "two") == []
    assert cluster.command("inside", "two", "find /dev/shm/agentbench-0 -type f") == ""


def test_caps_on_a_task_and_on_the_run_hold_across_nodes(ab: RayAb, tmp_path: Path) -> None:
    make_suite(tmp_path / "tasks", "one", "two", "three")
    model = f"scripted:{answers(tmp_path / 'answers.yaml')}"
    options = ("--agent", "llm_v0", "--model", model, "--max-steps", "100", "--repeats", "2", "--workers", "3")
    caps = ("--task-usd", "0.15", "--total-usd", "0.4")
    ran = ab.on_ray("run", "--suite", "tiny", *options, *caps, "--out", "out", "--json")
    assert ran.code == 2, ran.stderr
    attempts = ran.json["attempts"]
    spent = dict.fromkeys(("one", "two", "three"), 0.0)
    for record in attempts:
        spent[record["task_id"]] += record["cost"]["lm"]
    assert all(cost <= 0.15 + 2 * REQUEST for cost in spent.values()), spent
    assert 0.4 * 0.98 - 3 * REQUEST <= sum(spent.values()) <= 0.4 + 3 * REQUEST
    assert {record["termination"]["code"] for record in attempts} == {"total_budget"}
    # A task takes four requests and the run ten, so one task at least ends at its own cap, and one at that of the run.
    reasons = " ".join(record["termination"]["rationale"] for record in attempts)
    assert "(--task-usd)" in reasons
    assert "(--total-usd)" in reasons
    assert ab("verify", ran.json["run_dir"]).code == 0


def test_stopping_rule_judge_and_vault_hold_across_nodes(ab: RayAb, cluster: Cluster, tmp_path: Path) -> None:
    show = 'cat app.ini; test "$(cat app.ini)" && echo 42 > answer.txt'
    prepare(tmp_path, *TASKS, new=show)
    for task in (tmp_path / "tasks" / "tiny").iterdir():
        (task / "repo" / "app.ini").write_text(f"[app]\napi_token = {TOKEN}\n")
    (tmp_path / "judge.yaml").write_text(yaml.safe_dump({"answers": [{"text": json.dumps(ANSWER)}], "after": "repeat"}))
    recipient = ab("vault", "new-key", "audit.key").stdout.strip()
    kept = ("--judge-model", "scripted:judge.yaml", "--vault-recipient", recipient)
    ran = ab.on_ray(*RUN, *RULE, *kept, "--margin", "0.1", "--workers", "6", "--json")
    assert ran.code == 0, ran.stderr
    # As on one machine, exactly the attempts up to the first look were made.
    assert ran.json["stop_reason"].startswith("Stopped after 14 of 28 planned attempts: new is better at look 1 of 2")
    assert len(ran.json["attempts"]) == 14
    assert {record["judge"]["verdict"] for record in ran.json["attempts"]} == {"FAIL"}
    assert all(record["cost"]["judge"] > 0 for record in ran.json["attempts"])
    for run in ran.json["run_dirs"]:
        verified = ab("verify", run)
        assert verified.code == 0, verified.stdout
        assert [path for path in Path(run).rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()] == []
    # The driver kept the original of what a node redacted.
    new = Path(ran.json["run_dirs"][1])
    folder = new / ran.json["attempts"][-1]["artifact_paths"]["task_dir"]
    (output,) = [event for event in events(folder, "tool_call_finished") if event["payload"]["stdout"]["text"]]
    assert "[redacted:repo-secret:1]" in output["payload"]["stdout"]["text"]
    where = ("--task", folder.name, "--event", str(output["seq"]))
    original = ab("vault", "get", new, *where, "--key", "audit.key", "--reason", "test", "--by", "eve")
    assert TOKEN in original.stdout, original


def test_node_makes_attempts_in_docker_and_keeps_digests_only(ab: RayAb, cluster: Cluster, tmp_path: Path) -> None:
    require_docker()
    make_suite(tmp_path / "tasks", "one")
    options = (
        "--suite",
        "tiny",
        "--agent",
        "reference",
        "--sandbox",
        "docker",
        "--evidence",
        "digest",
        "--out",
        "out",
        "--json",
    )
    try:
        ran = ab.on_ray("run", *options, env={"DOCKER_HOST": os.environ.get("DOCKER_HOST", "")})
    finally:
        for node in ("one", "two"):
            remove_images(find_engine(), cluster.state(node))
    assert ran.code == 0, ran.stderr
    assert [record["result"]["passed"] for record in ran.json["attempts"]] == [True]
    run = Path(ran.json["run_dir"])
    assert json.loads((run / "run.json").read_text())["evidence"] == {"text": "digest", "originals": "not kept"}
    assert [path for path in run.rglob("*") if path.is_file() and b"+42" in path.read_bytes()] == []
    assert ab("verify", run).code == 0


@pytest.mark.slow
@pytest.mark.skipif(
    not {"AB_CLI_AGENTS", "AB_STATE"} <= set(os.environ),
    reason="set AB_CLI_AGENTS=1, and AB_STATE to the state in which tests/execution/test_cli_agents.py installed programs",
)
def test_program_of_a_cli_agent_is_sent_to_a_node(ab: RayAb, cluster: Cluster, tmp_path: Path) -> None:
    # The driver's network reaches no registry, so the program must be installed already.
    make_task(tmp_path / "tasks" / "tiny" / "one", text=TASK.format(id="one").replace(SMALL, ROOMY))
    script = tmp_path / "answers.yaml"
    script.write_text(yaml.safe_dump({"answers": ANSWERS["mini-swe-agent"], "after": "repeat"}))
    options = (
        "--suite",
        "tiny",
        "--agent",
        "cli:mini-swe-agent",
        "--model",
        f"scripted:{script}",
        "--out",
        "out",
        "--json",
    )
    ran = ab.on_ray("run", *options, env={"AB_STATE": os.environ["AB_STATE"]})
    assert ran.code == 0, ran.stderr
    assert [record["result"]["passed"] for record in ran.json["attempts"]] == [True], ran.json["attempts"]
    assert any(list(cluster.state(node).glob("agents/*/layer.json")) for node in ("one", "two"))
    assert ab("verify", ran.json["run_dir"]).code == 0


def test_unusable_nodes_and_impossible_demands_are_refused(ab: RayAb, cluster: Cluster, tmp_path: Path) -> None:
    version = ROOT / "src/agentbench/execution/version.py"
    other = cluster.folder / "other_version.py"
    other.write_text('def harness_version() -> str:\n    return "0.0.1"\n')
    address = cluster.add("other", f"mount --bind {other} {version}; mount --bind /bin/false $(command -v bwrap)")
    try:
        probed = ab.on_ray("doctor", "--json")
        assert probed.code == 3, probed.stdout + probed.stderr
        nodes = {node["address"]: node for node in probed.json["nodes"]}
        assert len(nodes) == 3
        assert "it has harness 0.0.1" in nodes[address]["problem"]
        assert nodes[address]["report"]["backends"]["bwrap"]
        assert nodes["10.77.0.1"]["problem"] == nodes["10.77.0.2"]["problem"] == ""
        make_suite(tmp_path / "tasks", "one", "large")
        large = tmp_path / "tasks/tiny/large/task.yaml"
        large.write_text(large.read_text().replace("{timeout_sec: 120,", "{cpu_limit: 64, timeout_sec: 120,", 1))
        ran = ab.on_ray("run", "--suite", "tiny", "--agent", "reference", "--out", "out")
    finally:
        cluster.command("kill", "other")
    assert ran.code == 3, ran.stderr
    assert "no node of the cluster can run task large: " in ran.stderr
    assert "10.77.0.2: it offers 1 CPUs, 64 are needed" in ran.stderr or "8 CPUs, 64 are needed" in ran.stderr
    assert f"node {address} is not used: it has harness 0.0.1" in ran.stderr
    assert not (tmp_path / "out").exists()
