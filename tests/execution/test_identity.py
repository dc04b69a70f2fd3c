"""An attempt is scored only if everything that identifies it was observed, and as planned."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agentbench.cli.main import root
from agentbench.execution.attempt.manifest import build_manifest
from agentbench.record.manifest import Manifest
from agentbench.record.manifest_problems import COMPARED, REQUIRED
from agentbench.sandbox.docker.engine import Engine, find_engine
from agentbench.sandbox.docker.images import RUNNER
from tests.execution.conftest import Ab
from tests.execution.tasks import TASK, make_task
from tests.sandbox.conftest import remove_images, require_docker
from tests.workspace.reference_git import commit_all, git, repository

pytestmark = pytest.mark.end_to_end

AGENT_EVENTS = {"briefing", "agent_turn_started", "tool_call_started", "patch_extracted"}
A, B = "a" * 40, "b" * 40


def event_types(out: Path) -> list[str]:
    (log,) = out.glob("*/tasks/*/events.jsonl")
    return [json.loads(line)["type"] for line in log.read_text().splitlines()]


def manifest_of(out: Path) -> dict[str, Any]:
    (path,) = out.glob("*/tasks/*/manifest.json")
    value = json.loads(path.read_text())["protocol_manifest"]
    assert isinstance(value, dict)
    return value


def assert_invalid_before_the_agent(out: Path, record: dict[str, Any], *, cause: str) -> None:
    reason = {"task": "SETUP_FAILED", "harness": "SANDBOX_ERROR"}[cause]
    assert (record["run_status"], record["invalid_cause"]) == ("invalid", cause), record["termination"]
    assert record["result"]["failure_reason"] == reason
    assert not AGENT_EVENTS.intersection(event_types(out))


# --- every field, with a fault in the manifest -----------------------------------------------------------------------


Fault = dict[str, Any]
"""Values to put into `protocol_manifest`, by dotted path; `^` is the top of the manifest."""

EMPTY: dict[str, Fault] = {
    "harness_version": {"^.harness_version": ""},
    "planned.task.contract_id": {"planned.task.contract_id": ""},
    "planned.task.task_digest": {"planned.task.task_digest": ""},
    "planned.task.acceptance_id": {"planned.task.acceptance_id": ""},
    "planned.config_class": {"planned.config_class": ""},
    "observed.snapshot": {"observed.snapshot": ""},
    "observed.base_tree": {"observed.base_tree": ""},
    "observed.env_digest": {"observed.env_digest": ""},
    "observed.backend": {"observed.backend": "", "planned.sandbox.backend": "auto"},
    "observed.image_digest": {"observed.backend": "docker", "planned.sandbox.backend": "docker"},
    "observed.enforcement": {"observed.enforcement": {}},
    "observed.os": {"observed.os": {}},
    "observed.package_managers": {"observed.package_managers": {}},
    "observed.started_at": {"observed.started_at": ""},
}
DIFFERENT: dict[str, tuple[Fault, str]] = {
    "seed": ({"observed.seed": 7}, "planned 20260307, observed 7"),
    "repository.commit": (
        {"planned.repository.commit": A, "observed.source": {"commit": B}},
        f"planned {A}, observed {B}",
    ),
    "repository.submodules": (
        {"planned.repository.submodules": {"lib": A}, "observed.source": {"submodule:lib": f"{B} ../lib"}},
        f"planned lib={A}, observed lib={B}",
    ),
    "repository.sha256": (
        {"planned.repository.sha256": "1" * 64, "observed.source": {"sha256": "2" * 64}},
        f"planned {'1' * 64}, observed {'2' * 64}",
    ),
    "repository.content": ({"planned.repository.content": "sha256:11"}, "planned sha256:11, observed sha256:"),
    "sandbox.backend": ({"observed.backend": "podman"}, "planned bwrap, observed podman"),
    "sandbox.image_digest": (
        {"planned.sandbox.image_digest": "sha256:11", "observed.image_digest": "sha256:22"},
        "planned sha256:11, observed sha256:22",
    ),
    "sandbox.env_digest": ({"planned.sandbox.env_digest": "sha256:11"}, "planned sha256:11, observed sha256:"),
    "entrypoints.install": ({"planned.entrypoints.install": ["make", "make it"]}, "planned make; make it, observed"),
    "environment": ({"observed.environment": {"TZ": "Mars"}}, "planned none, observed TZ=Mars"),
}
NOT_OBSERVED: dict[str, Fault] = {
    "repository.commit": {"planned.repository.commit": A, "observed.source": {}},
    "repository.submodules": {"planned.repository.submodules": {"lib": A}, "observed.source": {}},
    "repository.sha256": {"planned.repository.sha256": "1" * 64, "observed.source": {}},
    "sandbox.image_digest": {"planned.sandbox.image_digest": "sha256:11"},
    "entrypoints.install": {"planned.entrypoints.install": ["make"]},
    "environment": {"planned.environment": {"TZ": "UTC"}},
}
PINNED = sorted(name for name, compared in COMPARED.items() if compared.pinned)


def test_every_deciding_field_has_a_fault() -> None:
    assert set(EMPTY) == set(REQUIRED)
    assert set(DIFFERENT) == set(COMPARED)
    # The others are also required, or cannot be empty.
    assert set(COMPARED) - set(NOT_OBSERVED) == {"seed", "sandbox.backend", "sandbox.env_digest", "repository.content"}


def run_with_fault(monkeypatch: pytest.MonkeyPatch, ab: Ab, out: Path, fault: Fault) -> dict[str, Any]:
    """Run a real attempt whose complete manifest is changed before it is written, and return its record."""

    def build_with_fault(*arguments: Any) -> Manifest:
        manifest = build_manifest(*arguments)
        value = manifest.model_dump(mode="json")
        if manifest.protocol_manifest.observed is None:
            return manifest
        for path, replacement in fault.items():
            target = value if path.startswith("^") else value["protocol_manifest"]
            *parents, name = path.removeprefix("^.").split(".")
            for parent in parents:
                target = target[parent]
            target[name] = replacement
        return Manifest.model_validate(value)

    monkeypatch.setattr("agentbench.execution.attempt.setup_phase.build_manifest", build_with_fault)
    monkeypatch.setenv("AB_STATE", ab.env["AB_STATE"])
    task = make_task(out.parent / "task")
    arguments = ["run-task", "--task", str(task), "--agent", "reference", "--out", str(out), "--json"]
    done = CliRunner().invoke(root, arguments, catch_exceptions=False)
    record: dict[str, Any]
    (record,) = json.loads(done.stdout)["attempts"]
    assert ab("verify", *out.iterdir()).code == 0
    return record


@pytest.mark.req("R-02b")
@pytest.mark.parametrize("field", sorted(EMPTY))
def test_missing_field_makes_the_attempt_invalid(
    monkeypatch: pytest.MonkeyPatch, ab: Ab, tmp_path: Path, field: str
) -> None:
    record = run_with_fault(monkeypatch, ab, tmp_path / "out", EMPTY[field])
    assert_invalid_before_the_agent(tmp_path / "out", record, cause="harness")
    assert f"{field} is missing" in record["termination"]["rationale"]


@pytest.mark.req("R-02b")
@pytest.mark.parametrize("field", sorted(DIFFERENT))
def test_differing_field_makes_the_attempt_invalid(
    monkeypatch: pytest.MonkeyPatch, ab: Ab, tmp_path: Path, field: str
) -> None:
    fault, message = DIFFERENT[field]
    record = run_with_fault(monkeypatch, ab, tmp_path / "out", fault)
    assert_invalid_before_the_agent(tmp_path / "out", record, cause="task" if field in PINNED else "harness")
    assert f"{field}: {message}" in record["termination"]["rationale"]


@pytest.mark.req("R-02b")
@pytest.mark.parametrize("field", sorted(NOT_OBSERVED))
def test_planned_field_that_is_not_observed_makes_the_attempt_invalid(
    monkeypatch: pytest.MonkeyPatch, ab: Ab, tmp_path: Path, field: str
) -> None:
    record = run_with_fault(monkeypatch, ab, tmp_path / "out", NOT_OBSERVED[field])
    assert_invalid_before_the_agent(tmp_path / "out", record, cause="task" if field in PINNED else "harness")
    assert f"{field}: planned" in record["termination"]["rationale"]


# --- what really moves -----------------------------------------------------------------------------------------------


@pytest.fixture
def with_submodule(tmp_path: Path) -> tuple[Path, str]:
    """A locked task on a git repository with a submodule, and the submodule's revision."""
    library = repository(tmp_path / "library")
    (library / "lib.txt").write_text("lib\n")
    revision = commit_all(library)
    origin = repository(tmp_path / "origin")
    (origin / "answer.txt").write_text("41\n")
    git(origin, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "deps/lib")
    commit = commit_all(origin)
    text = TASK.format(id="answer").replace("{path: repo}", f'{{url: {origin}, commit: "{commit}"}}')
    return make_task(tmp_path / "task", text=text), revision


@pytest.mark.req("C-03a", "R-02a")
def test_submodules_are_in_the_lock_and_in_the_manifest(
    ab: Ab, tmp_path: Path, with_submodule: tuple[Path, str]
) -> None:
    task, revision = with_submodule
    assert ab("task", "lock", task).code == 0
    assert json.loads((task / "task.lock.json").read_text())["source"]["submodules"] == {"deps/lib": revision}
    ran = ab.by_command(task, "cat deps/lib/lib.txt && echo 42 > answer.txt", "--out", tmp_path / "out")
    assert ran.record["result"]["passed"], ran.record["termination"]
    manifest = manifest_of(tmp_path / "out")
    assert manifest["planned"]["repository"]["submodules"] == {"deps/lib": revision}
    assert manifest["observed"]["source"]["submodule:deps/lib"].startswith(revision)


@pytest.mark.req("C-03a", "C-03d", "R-02b")
def test_moved_submodule_makes_the_attempt_invalid(ab: Ab, tmp_path: Path, with_submodule: tuple[Path, str]) -> None:
    task, revision = with_submodule
    assert ab("task", "lock", task).code == 0
    lock = task / "task.lock.json"
    lock.write_text(lock.read_text().replace(revision, A))
    record = ab.by_command(task, "echo 42 > answer.txt", "--out", tmp_path / "out").record
    assert_invalid_before_the_agent(tmp_path / "out", record, cause="task")
    expected = f"repository.submodules: planned deps/lib={A}, observed deps/lib={revision}"
    assert expected in record["termination"]["rationale"]


@pytest.mark.req("C-04a", "R-02b")
def test_setup_with_another_result_than_locked_makes_the_attempt_invalid(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task", more="setup: {commands: ['cat /proc/sys/kernel/random/uuid > id.txt']}\n")
    assert ab("task", "lock", task).code == 0
    locked = json.loads((task / "task.lock.json").read_text())
    assert locked["backend"] == "bwrap"
    same = ab.run_task(task, "--agent", "reference", "--out", tmp_path / "same").record
    assert (same["result"]["passed"], same["env_digest"]) == (True, locked["env_digest"])
    other = ab.run_task(task, "--agent", "reference", "--fresh-setup", "--out", tmp_path / "other").record
    assert_invalid_before_the_agent(tmp_path / "other", other, cause="task")
    expected = f"sandbox.env_digest: planned {locked['env_digest']}, observed {other['env_digest']}"
    assert expected in other["termination"]["rationale"]


@pytest.mark.req("C-04a", "R-02b")
def test_lock_mismatch_shows_its_remedy(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task", more="setup: {commands: ['cat /proc/sys/kernel/random/uuid > id.txt']}\n")
    assert ab("task", "lock", task).code == 0
    ran = ab("run-task", "--task", task, "--agent", "reference", "--fresh-setup", "--out", tmp_path / "out")
    remedy = "sandbox.env_digest not as pinned: restore what changed, or review it and run `ab task lock "
    assert f"INVALID SETUP_FAILED: {remedy}" in ran.stdout
    (run,) = (tmp_path / "out").iterdir()
    shown = ab("show", run).stdout
    assert remedy in shown
    assert f"ab task lock {task}`" in shown


@pytest.fixture
def engine(shared_state: Path) -> Iterator[Engine]:
    require_docker()
    engine = find_engine()
    yield engine
    remove_images(engine, shared_state)


@pytest.fixture
def tag(engine: Engine, tmp_path: Path) -> Iterator[str]:
    """A name for images that is free again after the test."""
    name = f"agentbench-test/moved:{tmp_path.name.lower().replace('_', '-')}-{os.getpid()}"
    yield name
    for image in (name, f"{name}-first"):
        engine.run("image", "rm", "--force", image)


def build_image(engine: Engine, tag: str, label: str) -> str:
    runner = engine.output("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", RUNNER).split()[0]
    done = engine.run("build", "--tag", tag, "-", stdin=f"FROM {runner}\nLABEL moved={label}\n".encode())
    assert done.ok, done.stderr.kept
    return str(engine.inspect_image(tag)["Id"])


@pytest.mark.req("C-04a", "R-02b", "R-07")
def test_moved_image_tag_makes_the_attempt_invalid(ab: Ab, tmp_path: Path, engine: Engine, tag: str) -> None:
    docker = {"DOCKER_HOST": os.environ.get("DOCKER_HOST", "")}
    text = TASK.format(id="answer").replace("{timeout_sec", f'{{docker_image: "{tag}", timeout_sec')
    task = make_task(tmp_path / "task", text=text)
    first = build_image(engine, tag, "first")
    assert ab("task", "lock", task, env=docker, timeout=600).code == 0
    assert json.loads((task / "task.lock.json").read_text())["image"] == {"reference": tag, "digest": first}
    arguments = ("run-task", "--task", task, "--agent", "reference", "--json", "--out")
    kept = ab(*arguments, tmp_path / "kept", env=docker, timeout=600).record
    assert kept["result"]["passed"], kept["termination"]

    engine.output("tag", tag, f"{tag}-first")
    second = build_image(engine, tag, "second")
    moved = ab(*arguments, tmp_path / "moved", env=docker, timeout=600).record
    assert_invalid_before_the_agent(tmp_path / "moved", moved, cause="task")
    assert f"sandbox.image_digest: planned {first}, observed {second}" in moved["termination"]["rationale"]

    engine.output("tag", f"{tag}-first", tag)
    assert ab(*arguments, tmp_path / "back", env=docker, timeout=600).record["result"]["passed"]


@pytest.mark.req("C-04a")
def test_environment_locked_with_another_backend_is_not_compared(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task")
    assert ab("task", "lock", task).code == 0
    lock = json.loads((task / "task.lock.json").read_text())
    (task / "task.lock.json").write_text(json.dumps({**lock, "backend": "docker"}))
    assert ab.run_task(task, "--agent", "reference", "--out", tmp_path / "out").record["result"]["passed"]
    assert "locked with docker, not bwrap" in " ".join(manifest_of(tmp_path / "out")["observed"]["notes"])


@pytest.mark.req("R-02a", "C-04b")
def test_declared_variables_are_observed_inside_the_sandbox(ab: Ab, tmp_path: Path) -> None:
    text = TASK.format(id="answer").replace(
        "{timeout_sec", '{env: {TZ: UTC, LINES: "a\\nb", PATH: /usr/bin:/bin}, timeout_sec'
    )
    ab.run_task(make_task(tmp_path / "task", text=text), "--agent", "reference", "--out", tmp_path / "out")
    manifest = manifest_of(tmp_path / "out")
    assert manifest["observed"]["environment"] == manifest["planned"]["environment"]
    assert manifest["observed"]["environment"]["LINES"] == "a\nb"


@pytest.mark.req("R-02a")
def test_kernel_is_observed_for_every_run(ab: Ab, tmp_path: Path) -> None:
    """A stand-in for `uname` answers differently each time, as after an upgrade, while setup is cached."""
    script = "#!/bin/sh\\ncat /proc/sys/kernel/random/uuid\\n"
    install = f"printf '{script}' > /opt/env/bin/uname && chmod +x /opt/env/bin/uname"
    task = make_task(tmp_path / "task", more=f"setup: {{commands: [{json.dumps(install)}]}}\n")
    kernels = set()
    for name in ("first", "second"):
        assert ab.run_task(task, "--agent", "reference", "--out", tmp_path / name).record["result"]["passed"]
        observed = manifest_of(tmp_path / name)["observed"]
        assert observed["commands"][0]["cached"] == (name == "second")
        kernels.add(observed["os"]["kernel"])
    assert len(kernels) == 2, kernels
