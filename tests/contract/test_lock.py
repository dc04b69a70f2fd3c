"""Locks are deterministic, read strictly, and rejected when stale."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentbench.contract.identity import identify
from agentbench.contract.load import load_task
from agentbench.contract.lock import LOCK_NAME, LockedCheck, LockedImage, LockedSource, read_lock, write_lock
from agentbench.contract.make_lock import Resolution, lockfiles, make_lock
from agentbench.core.errors import ContractError
from tests.contract.task_folders import problems_of, task_with, write_task

pytestmark = pytest.mark.component

RESOLVED = Resolution(
    source=LockedSource(commit="a" * 40, submodules={"lib": "b" * 40}, digest="sha256:" + "c" * 64),
    image=LockedImage(reference="img:1", digest="sha256:" + "d" * 64),
    checks={"validation": LockedCheck(fail_to_pass=("t.py::a",), pass_to_pass=("t.py::b",))},
    protected=("tests/t.py", "conftest.py"),
    lockfiles={"uv.lock": "sha256:" + "e" * 64},
)
SCENARIO = "scorers: [{name: small, type: max_files_changed, limit: 3}]\njudge: {rubric: kindly}\n"


def locked_task(folder: Path, **changes: object) -> Path:
    write_task(folder, task_with(**changes), {"hidden/t.py": "x", "repo/uv.lock": ""})
    write_lock(folder, make_lock(load_task(folder, use_lock=False), RESOLVED))
    return folder


@pytest.mark.req("C-03a", "C-06")
def test_short_form_requires_the_ids_in_the_lock(tmp_path: Path) -> None:
    folder = locked_task(tmp_path)
    loaded = load_task(folder)
    assert loaded.lock is not None
    assert loaded.lock.source.submodules == {"lib": "b" * 40}
    assert loaded.lock.protected == ("conftest.py", "tests/t.py")
    (check,) = loaded.checks
    assert (check.fail_to_pass, check.pass_to_pass) == (("t.py::a",), ("t.py::b",))
    (plain,) = load_task(folder, use_lock=False).checks
    assert plain.fail_to_pass == ()


def test_locked_ids_do_not_replace_explicit_ones(tmp_path: Path) -> None:
    own = {"id": "unit", "command": "pytest", "parser": "pytest", "fail_to_pass": ["t.py::own"]}
    bare = {"id": "bare", "command": "pytest", "parser": "pytest"}
    script = {"id": "script", "command": "make"}
    write_task(tmp_path, task_with(oracle={"checks": [own, bare, script]}))
    ids = {name: LockedCheck(pass_to_pass=("t.py::x",)) for name in ("unit", "bare", "script")}
    write_lock(tmp_path, make_lock(load_task(tmp_path), Resolution(checks=ids)))
    checks = load_task(tmp_path).checks
    assert [check.pass_to_pass for check in checks] == [(), ("t.py::x",), ()]
    assert checks[0].fail_to_pass == ("t.py::own",)


def test_lock_is_deterministic_and_round_trips(tmp_path: Path) -> None:
    folder = locked_task(tmp_path)
    before = (folder / LOCK_NAME).read_bytes()
    lock = make_lock(load_task(folder, use_lock=False), RESOLVED)
    assert read_lock(folder) == lock
    write_lock(folder, lock)
    assert (folder / LOCK_NAME).read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == ["hidden", "repo", "task.lock.json", "task.yaml"]


@pytest.mark.req("C-11")
def test_locking_changes_acceptance_but_not_contract(tmp_path: Path) -> None:
    folder = locked_task(tmp_path)
    free, locked = identify(load_task(folder, use_lock=False)), identify(load_task(folder))
    assert (free.contract_id, free.task_digest, free.setup_key) == (
        locked.contract_id,
        locked.task_digest,
        locked.setup_key,
    )
    assert free.acceptance_id != locked.acceptance_id


@pytest.mark.req("C-11")
@pytest.mark.parametrize(
    "changes, named",
    [
        ({"setup": {"commands": ["x"]}}, "setup"),
        ({"statement": "y", "budget": {"usd": 1}}, "statement, budget"),
        ({"validation": {"failing_command": "pytest", "passing_command": "pytest -q"}}, "oracle, statement"),
        ({"scorers": [{"name": "a", "type": "forbid_secrets"}]}, "scorers"),
    ],
)
def test_stale_lock_is_rejected_and_names_what_changed(tmp_path: Path, changes: dict[str, object], named: str) -> None:
    folder = locked_task(tmp_path)
    write_task(folder, task_with(**changes))
    (problem,) = problems_of(folder)
    assert problem == f"{LOCK_NAME}: ids: stale lock: {named} changed since it was written"


def test_changed_hidden_file_makes_the_lock_stale(tmp_path: Path) -> None:
    folder = locked_task(tmp_path, oracle={"hidden": "hidden"})
    (folder / "hidden" / "t.py").write_text("y")
    assert "stale lock: oracle changed" in problems_of(folder)[0]


def test_metadata_changes_keep_the_lock_valid(tmp_path: Path) -> None:
    folder = locked_task(tmp_path)
    write_task(
        folder,
        task_with(title="new", strata={"kind": "docs"}, agent={"max_steps": 5}, artifacts={"keep_workspace": True}),
    )
    assert load_task(folder).lock is not None


def test_lock_with_edited_ids_is_rejected(tmp_path: Path) -> None:
    folder = locked_task(tmp_path)
    path = folder / LOCK_NAME
    path.write_text(path.read_text().replace("t.py::a", "t.py::easier"))
    assert "edited lock" in problems_of(folder)[0]


def test_lock_of_another_task_is_rejected(tmp_path: Path) -> None:
    folder = locked_task(tmp_path)
    write_task(folder, task_with(id="other"))
    assert "expected other; this is the lock of toy" in problems_of(folder)[0]


@pytest.mark.req("C-12a")
def test_scenario_edits_do_not_change_a_locked_task(tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(SCENARIO)
    folder = locked_task(tmp_path / "t", scorers=[{"name": "own", "type": "forbid_secrets"}])
    before = load_task(folder)
    assert [scorer.name for scorer in before.scorers] == ["own", "small"]
    assert before.judge is not None
    assert before.judge.rubric == "kindly"
    scenario.write_text("scorers: [{name: other, type: forbid_secrets}]\n")
    after = load_task(folder)
    assert after.scorers == before.scorers
    assert after.judge == before.judge
    assert identify(after) == identify(before)
    unlocked = load_task(folder, use_lock=False)
    assert [scorer.name for scorer in unlocked.scorers] == ["own", "other"]


@pytest.mark.req("C-12a")
def test_scenario_scorers_are_part_of_an_unlocked_digest(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "t", task_with())
    before = identify(load_task(folder))
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    after = identify(load_task(folder))
    assert after.task_digest != before.task_digest
    assert after.contract_id == before.contract_id


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "invalid JSON"),
        ("[]", "object"),
        ("{}", "task_id"),
        ('{"a": 1, "a": 2}', "duplicate key"),
        ('{"a": NaN}', "NaN is not JSON"),
        ("[" * 100_000, "invalid lock"),
    ],
)
def test_invalid_lock_is_rejected_with_a_remedy(tmp_path: Path, text: str, words: str) -> None:
    folder = write_task(tmp_path, task_with())
    (folder / LOCK_NAME).write_text(text)
    with pytest.raises(ContractError) as caught:
        load_task(folder)
    assert any(words in problem for problem in caught.value.problems), caught.value.problems
    assert str(folder / LOCK_NAME) in caught.value.problems[0]


@pytest.mark.parametrize("kind", ["fifo", "folder", "dangling"])
def test_non_regular_lock_is_rejected_not_ignored(tmp_path: Path, kind: str) -> None:
    import os

    folder = write_task(tmp_path, task_with())
    path = folder / LOCK_NAME
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("nowhere")
    assert "cannot read" in problems_of(folder)[0]


def test_unknown_key_in_a_lock_is_rejected(tmp_path: Path) -> None:
    folder = locked_task(tmp_path)
    value = json.loads((folder / LOCK_NAME).read_text())
    (folder / LOCK_NAME).write_text(json.dumps(value | {"extra": 1}))
    assert "extra" in problems_of(folder)[0]


def test_lock_with_unknown_checks_is_rejected(tmp_path: Path) -> None:
    folder = write_task(tmp_path, task_with())
    with pytest.raises(ContractError, match="gone"):
        make_lock(load_task(folder), Resolution(checks={"gone": LockedCheck()}))


def test_write_failure_of_a_lock_is_reported(tmp_path: Path) -> None:
    folder = locked_task(tmp_path / "a")
    lock = read_lock(folder)
    assert lock is not None
    with pytest.raises(ContractError) as caught:
        write_lock(tmp_path / "nowhere", lock)
    assert "cannot write" in caught.value.problems[0]


@pytest.mark.req("C-17")
def test_dependency_lockfiles_are_listed_with_digests(tmp_path: Path) -> None:
    names = ["uv.lock", "requirements.txt", "requirements-dev.txt", "sub/package-lock.json", "Cargo.lock"]
    for name in [*names, "notes.txt", ".git/uv.lock", "setup.py"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "go.sum").symlink_to("uv.lock")
    digests = lockfiles(tmp_path)
    assert sorted(digests) == sorted(names)
    (tmp_path / "uv.lock").write_text("changed")
    assert [name for name, value in lockfiles(tmp_path).items() if digests[name] != value] == ["uv.lock"]
