"""Identities change with the meaning of a task, and not with its formatting."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from agentbench.contract.identity import identify
from agentbench.contract.load import load_task
from agentbench.contract.lock import Identities
from agentbench.contract.schema import Task
from agentbench.contract.schema_problems import keys_of, sections_of
from tests.contract.task_folders import MINIMAL, task_with, write_task

pytestmark = pytest.mark.component

PLAIN = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)

BASE: dict[str, Any] = {
    "id": "toy",
    "suite": "mine",
    "title": "a title",
    "statement": "Fix it.",
    "hints": {"test_command": "pytest"},
    "strata": {"kind": "bugfix"},
    "repo": {"url": "https://example.org/toy.git", "commit": "a" * 40},
    "environment": {"docker_image": "img:1", "env": {"TZ": "UTC", "A": "b"}, "cpu_limit": 2, "mem_limit_mb": 512},
    "setup": {"commands": ["pip install ."], "capture": ["pip freeze"]},
    "validation": {"failing_command": "pytest -q", "passing_command": "pytest -q"},
    "oracle": {
        "hidden": "hidden",
        "checks": [
            {"id": "unit", "command": "pytest", "parser": "pytest", "fail_to_pass": ["a"], "pass_to_pass": ["b"]},
            {"id": "probe", "kind": "probe", "candidate": "serve", "driver": "probe.py"},
            {"id": "extra", "command": "lint", "mandatory": False},
        ],
    },
    "reference": "reference.patch",
    "policy": {"editable_globs": ["src/**"]},
}
FILES = {
    "hidden/tests/test_h.py": "def test_h(): assert True\n",
    "probe.py": "print()\n",
    "other.py": "print()\n",
    "Dockerfile": "FROM scratch\n",
    "reference.patch": "",
    "other.patch": "",
    "statement.md": "Fix it.",
}
NOTHING: frozenset[str] = frozenset()
TASK = frozenset({"task"})
CONTRACT = frozenset({"task", "contract"})
SETUP = frozenset({"task", "contract", "setup"})
ACCEPTANCE = frozenset({"task", "contract", "acceptance"})
REPLACED = object()
"""Marks keys in CHANGES that cannot be changed alone; other tests cover them."""

CHANGES: dict[str, tuple[Any, frozenset[str]]] = {
    "schema_version": (REPLACED, NOTHING),
    "id": ("other", NOTHING),
    "suite": ("other", NOTHING),
    "title": ("another", NOTHING),
    "statement": ("Fix it well.", TASK),
    "statement_file": (REPLACED, NOTHING),
    "hints.test_command": ("make", TASK),
    "hints.build_command": ("make", TASK),
    "hints.target_modules": (["m"], TASK),
    "hints.entry_points": (["m"], TASK),
    "hints.expected_behaviour": ("works", TASK),
    "strata.ecosystem": ("python", NOTHING),
    "strata.kind": ("feature", NOTHING),
    "strata.test_runtime": ("long", NOTHING),
    "strata.dependencies": ("none", NOTHING),
    "repo.url": ("https://example.org/other.git", SETUP),
    "repo.commit": ("b" * 40, SETUP),
    "repo.origin": ("https://example.net/toy.git", NOTHING),
    "repo.archive": (REPLACED, NOTHING),
    "repo.sha256": (REPLACED, NOTHING),
    "repo.path": (REPLACED, NOTHING),
    "repo.submodules": (False, SETUP),
    "repo.subdir": ("sub", SETUP),
    "environment.docker_image": ("img:2", SETUP),
    "environment.dockerfile": (REPLACED, NOTHING),
    "environment.python": ("3.12", SETUP),
    "environment.workdir": ("/work", SETUP),
    "environment.network_policy": ("setup_only", SETUP),
    "environment.network_allow": (REPLACED, NOTHING),
    "environment.cpu_limit": (2.5, SETUP),
    "environment.mem_limit_mb": (513, SETUP),
    "environment.pids_limit": (99, SETUP),
    "environment.disk_limit_mb": (99, SETUP),
    "environment.timeout_sec": (99, SETUP),
    "environment.tool_timeout_sec": (99, SETUP),
    "environment.env": ({"TZ": "UTC", "A": "c"}, SETUP),
    "environment.secrets": (["TOKEN"], SETUP),
    "setup.commands": (["pip install . "], SETUP),
    "setup.capture": ([], SETUP),
    "setup.timeout_sec": (9, SETUP),
    "validation.failing_command": ("pytest -x", CONTRACT),
    "validation.passing_command": ("pytest -x", CONTRACT),
    "oracle.build": ("make", CONTRACT),
    "oracle.static": (["mypy"], CONTRACT),
    "oracle.hidden": (None, ACCEPTANCE),
    "oracle.protected": ([], ACCEPTANCE),
    "oracle.generated": (["x/**"], CONTRACT),
    "oracle.min_decoy_coverage": (0.5, CONTRACT),
    "oracle.checks": ([{"id": "unit", "command": "pytest"}], ACCEPTANCE),
    "reference": ("other.patch", NOTHING),
    "turns": (["And now?"], TASK),
    "policy.editable_globs": (["lib/**"], CONTRACT),
    "policy.readable_globs": (["lib/**"], CONTRACT),
    "policy.outside_editable": ("revert", CONTRACT),
    "policy.deny_commands": ([{"pattern": "curl *"}], CONTRACT),
    "policy.dependencies": ({"allow_new": False}, CONTRACT),
    "policy.require_limits": ({"memory": "hard"}, CONTRACT),
    "policy.stages": (["inspect", "write"], CONTRACT),
    "policy.stage_mode": ("strict", CONTRACT),
    "policy.tools": (["run"], CONTRACT),
    "budget.usd": (1, TASK),
    "budget.wall_sec": (9, TASK),
    "budget.tokens": (9, TASK),
    "budget.tool_calls": (9, TASK),
    "budget.failed_cycles": (9, TASK),
    "rubric.lambda": (2.0, TASK),
    "rubric.envelope": ({"files": 1}, TASK),
    "scorers": ([{"name": "a", "type": "forbid_secrets"}], TASK),
    "scenario.scorers": ([{"name": "a", "type": "forbid_secrets"}], TASK),
    "scenario.judge": ({"enabled": False}, TASK),
    "judge.enabled": (False, TASK),
    "judge.expected_outcome": ("refusal", TASK),
    "judge.rubric": ("kindly", TASK),
    "agent.entrypoint": ("scripted", NOTHING),
    "agent.max_steps": (9, NOTHING),
    "agent.allow_file_write": (False, NOTHING),
    "agent.editable_globs": (REPLACED, NOTHING),
    "artifacts.keep_workspace": (True, NOTHING),
    "artifacts.redact": (["X"], NOTHING),
}
CHECK_CHANGES: dict[str, Any] = {
    "id": "other",
    "layer": "e2e",
    "command": "pytest -x",
    "parser": REPLACED,
    "report": REPLACED,
    "kind": REPLACED,
    "candidate": "serve 2",
    "driver": "other.py",
    "fail_to_pass": ["c"],
    "pass_to_pass": [],
    "mandatory": False,
    "timeout_sec": 9,
    "reruns": 1,
    "flake_tolerance": 0.1,
}


def ids_of(folder: Path, value: dict[str, Any] | str) -> Identities:
    return identify(load_task(write_task(folder, value, FILES)))


def differences(first: Identities, second: Identities) -> frozenset[str]:
    names = {"contract": "contract_id", "task": "task_digest", "acceptance": "acceptance_id", "setup": "setup_key"}
    return frozenset(short for short, name in names.items() if getattr(first, name) != getattr(second, name))


def changed(path: str, value: object) -> dict[str, Any]:
    task = copy.deepcopy(BASE)
    *sections, key = path.split(".")
    target = task
    for section in sections:
        target = target.setdefault(section, {})
    if value is None:
        del target[key]
    else:
        target[key] = value
    return task


def all_keys() -> Iterator[str]:
    sections: dict[str, type[BaseModel]] = dict(sections_of(Task))
    for key in keys_of(Task):
        if key in sections and key != "scorers":
            yield from (f"{key}.{inner}" for inner in keys_of(sections[key]))
        else:
            yield key


# --- every change of meaning ---------------------------------------------------------------------------------------


def test_table_of_changes_covers_every_schema_key() -> None:
    from agentbench.contract.schema import Check

    assert set(CHANGES) == set(all_keys())
    assert set(CHECK_CHANGES) == set(keys_of(Check))


@pytest.mark.req("C-11")
@pytest.mark.parametrize("path", [path for path, (value, _) in CHANGES.items() if value is not REPLACED])
def test_each_key_changes_exactly_its_identities(tmp_path: Path, path: str) -> None:
    value, expected = CHANGES[path]
    assert differences(ids_of(tmp_path, BASE), ids_of(tmp_path, changed(path, value))) == expected


@pytest.mark.req("C-11")
@pytest.mark.parametrize("key", [key for key, value in CHECK_CHANGES.items() if value is not REPLACED])
def test_mandatory_check_keys_change_contract_and_acceptance(tmp_path: Path, key: str) -> None:
    task = copy.deepcopy(BASE)
    task["oracle"]["checks"][1 if key in {"candidate", "driver"} else 0][key] = CHECK_CHANGES[key]
    assert differences(ids_of(tmp_path, BASE), ids_of(tmp_path, task)) == ACCEPTANCE


def test_stage_mode_auto_is_the_same_as_no_stage_mode(tmp_path: Path) -> None:
    assert not differences(ids_of(tmp_path, BASE), ids_of(tmp_path, changed("policy.stage_mode", "auto")))


def test_optional_check_changes_the_contract_but_not_the_acceptance(tmp_path: Path) -> None:
    task = copy.deepcopy(BASE)
    task["oracle"]["checks"][2]["command"] = "lint -v"
    assert differences(ids_of(tmp_path, BASE), ids_of(tmp_path, task)) == CONTRACT


@pytest.mark.req("C-06", "C-11")
def test_order_of_checks_matters(tmp_path: Path) -> None:
    task = copy.deepcopy(BASE)
    task["oracle"]["checks"].reverse()
    assert differences(ids_of(tmp_path, BASE), ids_of(tmp_path, task)) == ACCEPTANCE


@pytest.mark.req("C-11")
def test_short_form_is_part_of_the_acceptance_if_it_decides(tmp_path: Path) -> None:
    other = task_with(validation={"failing_command": "pytest -q", "passing_command": "pytest -x"})
    assert (
        differences(ids_of(tmp_path, MINIMAL | {"statement": "x"}), ids_of(tmp_path, other | {"statement": "x"}))
        == ACCEPTANCE
    )


@pytest.mark.req("C-11")
@pytest.mark.parametrize(
    "name, expected",
    [
        ("hidden/tests/test_h.py", ACCEPTANCE),
        ("hidden/new.py", ACCEPTANCE),
        ("probe.py", ACCEPTANCE),
        ("reference.patch", NOTHING),
        ("notes.md", NOTHING),
        ("hidden/tests/__pycache__/test_h.cpython-311.pyc", NOTHING),
        ("hidden/.pytest_cache/README.md", NOTHING),
    ],
)
def test_bytes_of_task_files_change_the_identities_they_affect(
    tmp_path: Path, name: str, expected: frozenset[str]
) -> None:
    before = ids_of(tmp_path, BASE)
    (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
    (tmp_path / name).write_text("changed")
    assert differences(before, identify(load_task(tmp_path))) == expected


@pytest.mark.req("C-11")
def test_mode_and_name_of_a_hidden_file_count(tmp_path: Path) -> None:
    before = ids_of(tmp_path, BASE)
    hidden = tmp_path / "hidden" / "tests" / "test_h.py"
    hidden.chmod(0o755)
    executable = identify(load_task(tmp_path))
    assert differences(before, executable) == ACCEPTANCE
    hidden.rename(hidden.with_name("test_i.py"))
    assert differences(executable, identify(load_task(tmp_path))) == ACCEPTANCE


@pytest.mark.req("C-04a", "C-11")
def test_dockerfile_bytes_are_part_of_the_environment(tmp_path: Path) -> None:
    task = changed("environment", {"dockerfile": "Dockerfile"})
    before = ids_of(tmp_path, task)
    (tmp_path / "Dockerfile").write_text("FROM other\n")
    assert differences(before, identify(load_task(tmp_path))) == SETUP


@pytest.mark.req("C-04b")
def test_allow_list_is_part_of_the_environment(tmp_path: Path) -> None:
    first = changed("environment", {"network_policy": "always", "network_allow": ["a.org"]})
    second = changed("environment", {"network_policy": "always", "network_allow": ["b.org"]})
    assert differences(ids_of(tmp_path, first), ids_of(tmp_path, second)) == SETUP


# --- repository from a folder or archive ------------------------------------------------------------------------------------


@pytest.mark.req("C-03c", "C-11")
@pytest.mark.parametrize("action", ["content", "mode", "add", "remove", "link", "rename"])
def test_local_repository_is_identified_by_its_content(tmp_path: Path, action: str) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "a.py").write_text("a = 1\n")
    (repo / "b.py").write_text("")
    before = ids_of(tmp_path, changed("repo", {"path": "repo"}))
    match action:
        case "content":
            (repo / "a.py").write_text("a = 2\n")
        case "mode":
            (repo / "a.py").chmod(0o755)
        case "add":
            (repo / "c.py").write_text("")
        case "remove":
            (repo / "b.py").unlink()
        case "link":
            (repo / "b.py").unlink()
            (repo / "b.py").symlink_to("a.py")
        case _:
            (repo / "b.py").rename(repo / "d.py")
    assert differences(before, identify(load_task(tmp_path))) == SETUP


@pytest.mark.req("C-03c")
def test_local_repository_keeps_its_identity_when_moved_or_run(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text("a = 1\n")
    (tmp_path / "two" / "__pycache__").mkdir()
    (tmp_path / "two" / "__pycache__" / "a.cpython-311.pyc").write_bytes(b"x")
    (tmp_path / "two" / ".git").mkdir()
    (tmp_path / "two" / ".git" / "HEAD").write_text("x")
    first = ids_of(tmp_path, changed("repo", {"path": "one"}))
    assert differences(first, ids_of(tmp_path, changed("repo", {"path": "two"}))) == NOTHING


@pytest.mark.req("C-03b")
def test_sha256_prefix_does_not_change_identities(tmp_path: Path) -> None:
    first = changed("repo", {"archive": "pypi:a==1", "sha256": "c" * 64})
    second = changed("repo", {"archive": "pypi:a==1", "sha256": "sha256:" + "c" * 64})
    third = changed("repo", {"archive": "pypi:a==1", "sha256": "d" * 64})
    assert differences(ids_of(tmp_path, first), ids_of(tmp_path, second)) == NOTHING
    assert differences(ids_of(tmp_path, first), ids_of(tmp_path, third)) == SETUP


# --- formatting ---------------------------------------------------------------------------------------------


def shuffled(value: Any, chooser: random.Random) -> Any:
    if isinstance(value, dict):
        keys = list(value)
        chooser.shuffle(keys)
        return {key: shuffled(value[key], chooser) for key in keys}
    return [shuffled(item, chooser) for item in value] if isinstance(value, list) else value


def commented(text: str, chooser: random.Random) -> str:
    return "".join(
        f"{line}  # x\n" if chooser.random() < 0.3 else f"{line}\n" for line in ["# top", *text.splitlines()]
    )


@pytest.mark.req("C-11")
@given(seed=st.integers(0, 2**32), flow=st.sampled_from([None, True, False]), width=st.sampled_from([20, 80, 1000]))
@PLAIN
def test_key_order_comments_and_formatting_do_not_count(
    tmp_path: Path, seed: int, flow: bool | None, width: int
) -> None:
    chooser = random.Random(seed)
    text = yaml.safe_dump(
        shuffled(BASE, chooser), sort_keys=False, default_flow_style=flow, width=width, indent=chooser.randint(2, 6)
    )
    if width == 1000:  # a wrapped line has no place for a comment
        text = commented(text, chooser)
    assert ids_of(tmp_path, text) == ids_of(tmp_path, BASE)


@pytest.mark.req("C-11")
@given(seed=st.integers(0, 2**32))
@PLAIN
def test_explicit_defaults_do_not_change_identities(tmp_path: Path, seed: int) -> None:
    chooser = random.Random(seed)
    before = ids_of(tmp_path, BASE)
    whole = load_task(tmp_path).task.model_dump(mode="json", by_alias=True)
    assert ids_of(tmp_path, _some_of(whole, BASE, chooser)) == before


def _some_of(whole: Any, given: Any, chooser: random.Random) -> Any:
    """Add a random choice of explicit defaults from `whole` to `given`. A probe must not have a `parser`."""
    if isinstance(whole, dict):
        probe = whole.get("kind") == "probe"
        return {
            key: _some_of(value, given.get(key, value), chooser)
            for key, value in whole.items()
            if key in given or (chooser.random() < 0.5 and value is not None and not (probe and key == "parser"))
        }
    if isinstance(whole, list) and len(whole) == len(given):
        return [_some_of(item, other, chooser) for item, other in zip(whole, given, strict=True)]
    return whole


@pytest.mark.req("C-11")
@given(
    first=st.fixed_dictionaries({}, optional={key: st.integers(1, 3) for key in ("wall_sec", "tokens", "tool_calls")}),
    second=st.fixed_dictionaries({}, optional={key: st.integers(1, 3) for key in ("wall_sec", "tokens", "tool_calls")}),
)
@PLAIN
def test_digests_are_equal_exactly_when_tasks_mean_the_same(
    tmp_path: Path, first: dict[str, int], second: dict[str, int]
) -> None:
    same = ids_of(tmp_path, changed("budget", first)) == ids_of(tmp_path, changed("budget", second))
    assert same == (first == second)


@pytest.mark.req("C-08a", "C-11")
def test_editable_globs_count_the_same_in_policy_and_agent(tmp_path: Path) -> None:
    in_agent = copy.deepcopy(BASE)
    del in_agent["policy"]
    in_agent["agent"] = {"editable_globs": ["src/**"]}
    assert ids_of(tmp_path, in_agent) == ids_of(tmp_path, BASE)
    in_agent["agent"] = {"editable_globs": ["lib/**"]}
    assert differences(ids_of(tmp_path, in_agent), ids_of(tmp_path, BASE)) == CONTRACT


def test_statement_file_counts_like_an_inline_statement(tmp_path: Path) -> None:
    in_file = copy.deepcopy(BASE)
    del in_file["statement"]
    in_file["statement_file"] = "statement.md"
    assert ids_of(tmp_path, in_file) == ids_of(tmp_path, BASE)


def test_identities_do_not_depend_on_the_task_location(tmp_path: Path) -> None:
    assert ids_of(tmp_path / "a" / "b", BASE) == ids_of(tmp_path / "c", BASE)


@pytest.mark.req("C-11")
def test_identities_of_the_short_example_are_pinned() -> None:
    """Published digests: changing them breaks every lock and every comparison with earlier runs."""
    ids = identify(load_task(Path(__file__).parent / "short_example"))
    assert ids.contract_id == "sha256:4f37bb7d49afd2d7dbed54427794e1d928f2725d0006a077d2327745c2b70852"
    assert ids.task_digest == "sha256:76da6fe8ed5599dd256c49f6e4239ad7aaad4b889e1db9ba9da1384d8d544837"
