"""Static checks of the bundled tasks."""

from __future__ import annotations

from pathlib import Path

import pathspec
import pytest

from agentbench.agents.scripted import load_script
from agentbench.authoring.commit.from_commit import ENVELOPE
from agentbench.contract.load import LoadedTask
from agentbench.contract.suite import load_suite
from agentbench.tree.folder import FolderTree
from agentbench.workspace.diff.apply import plan_writes
from agentbench.workspace.diff.parse import parse

pytestmark = pytest.mark.component

SUITE = load_suite("demo", Path("nowhere"))
AGENTS = SUITE.folder / "agents"

each_task = pytest.mark.parametrize("loaded", SUITE.tasks, ids=[loaded.task.id for loaded in SUITE.tasks])


def patch_of(loaded: LoadedTask) -> bytes:
    assert loaded.reference_file is not None
    return loaded.reference_file.read_bytes()


@pytest.mark.req("C-13")
def test_tasks_cover_five_kinds() -> None:
    kinds = {loaded.task.strata.kind for loaded in SUITE.tasks}
    assert kinds == {"bugfix", "dependency", "feature", "migration", "refactor"}


def test_some_tasks_have_a_probe() -> None:
    probed = [loaded.task.id for loaded in SUITE.tasks if any(check.kind == "probe" for check in loaded.checks)]
    assert len(probed) >= 2


@each_task
def test_task_is_complete(loaded: LoadedTask) -> None:
    task = loaded.task
    assert task.title
    assert len(loaded.statement) > 200, "a realistic issue text"
    assert loaded.hidden_files()
    assert (loaded.folder / "notes.md").exists()
    assert task.environment.python is None, "tasks must work with any supported interpreter"
    assert all("==" in command for command in task.setup.commands if "install" in command), "versions are pinned"
    unit = next(check for check in loaded.checks if check.parser == "pytest")
    assert unit.fail_to_pass
    assert unit.pass_to_pass
    assert not set(unit.fail_to_pass) & set(unit.pass_to_pass)


@each_task
@pytest.mark.req("C-10")
def test_hidden_files_are_not_in_the_repository(loaded: LoadedTask) -> None:
    with FolderTree.at(loaded.folder / "repo") as repository:
        visible = {entry.path for entry in repository.entries()}
    assert not visible & set(loaded.hidden_files())
    assert not any(b"reference" in path or b"hidden" in path for path in visible)
    assert all(path.startswith(b"tests/") for path in loaded.hidden_files())


@each_task
def test_reference_applies_and_stays_in_scope(loaded: LoadedTask) -> None:
    with FolderTree.at(loaded.folder / "repo") as repository:
        writes = plan_writes(parse(patch_of(loaded)), repository).writes
    scope = pathspec.PathSpec.from_lines("gitignore", loaded.editable_globs)
    for write in writes:
        assert scope.match_file(write.path.decode()), write.path
        assert not write.path.startswith(b"tests/"), "a reference must not change tests"


@each_task
def test_reference_gets_a_good_score(loaded: LoadedTask) -> None:
    """The envelope is 10 times the reference, as in tasks from commits: `minimal` is 0.90, and the score 0.94."""
    patch = patch_of(loaded).decode()
    files = sum(line.startswith("+++ ") for line in patch.splitlines())
    lines = sum(line[:1] in "+-" and line[:3] not in {"+++", "---"} for line in patch.splitlines() if line)
    assert (loaded.task.rubric.envelope.files, loaded.task.rubric.envelope.lines) == (
        ENVELOPE * files,
        ENVELOPE * lines,
    )


@each_task
def test_partial_agent_has_a_script(loaded: LoadedTask) -> None:
    assert len(load_script(AGENTS / "partial" / f"{loaded.task.id}.yaml").steps) >= 5


def test_no_generated_files_are_bundled() -> None:
    left = [path for path in SUITE.folder.rglob("*") if path.name in {"__pycache__", ".pytest_cache", ".git"}]
    assert left == []
