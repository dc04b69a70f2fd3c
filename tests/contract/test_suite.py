"""Loading suites and scenarios."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.contract.load import load_scenario
from agentbench.contract.suite import Suite, available, load_suite, suite_folder
from agentbench.core.errors import ContractError
from tests.contract.task_folders import task_with, write_task

pytestmark = pytest.mark.component


def make(tasks: Path, suite: str, *ids: str) -> None:
    for name in ids:
        write_task(tasks / suite / f"folder-{name}", task_with(id=name, suite=suite))


def rejection(name: str, tasks: Path) -> ContractError:
    with pytest.raises(ContractError) as caught:
        load_suite(name, tasks)
    assert caught.value.exit_code == 2
    return caught.value


@pytest.mark.req("C-01")
def test_suite_lists_tasks_by_id(tmp_path: Path) -> None:
    make(tmp_path, "dev", "b", "a", "c")
    (tmp_path / "dev" / "README.md").write_text("")
    (tmp_path / "dev" / "shared").mkdir()
    suite = load_suite("dev", tmp_path)
    assert isinstance(suite, Suite)
    assert [loaded.task.id for loaded in suite.tasks] == ["a", "b", "c"]
    assert suite.folder == tmp_path / "dev"


@pytest.mark.req("C-01")
def test_task_must_name_the_suite_of_its_folder(tmp_path: Path) -> None:
    make(tmp_path, "dev", "a")
    write_task(tmp_path / "dev" / "b", task_with(id="b", suite="held-out"))
    (problem,) = rejection("dev", tmp_path).problems
    assert problem.endswith("dev/b/task.yaml: suite: expected dev, the name of the suite folder; got held-out")


@pytest.mark.req("C-01")
def test_duplicate_task_id_is_rejected_with_both_files(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        write_task(tmp_path / "dev" / folder, task_with(id="same", suite="dev"))
    (problem,) = rejection("dev", tmp_path).problems
    assert "dev/x/task.yaml" in problem
    assert "dev/y/task.yaml" in problem


@pytest.mark.req("C-01")
def test_all_invalid_tasks_of_a_suite_are_reported(tmp_path: Path) -> None:
    make(tmp_path, "dev", "good")
    write_task(tmp_path / "dev" / "bad1", "id: [")
    write_task(tmp_path / "dev" / "bad2", task_with(id=None, suite="dev"))
    (tmp_path / "dev" / "bad3").mkdir()
    (tmp_path / "dev" / "bad3" / "task.yml").write_text("")
    error = rejection("dev", tmp_path)
    assert len(error.problems) == 3
    assert all(f"bad{n}/task.y" in " ".join(error.problems) for n in (1, 2, 3))


def test_unknown_suite_lists_available_ones_with_a_hint(tmp_path: Path) -> None:
    make(tmp_path, "custom-dev", "a")
    make(tmp_path, "custom-heldout", "a")
    error = rejection("custom-dv", tmp_path)
    assert "(did you mean `custom-dev`?)" in error.message
    assert "available: custom-dev, custom-heldout, demo" in error.message
    nowhere = rejection("x", tmp_path / "nowhere")
    assert "available: demo" in nowhere.message
    assert nowhere.remedy.startswith(f"{tmp_path / 'nowhere'} is not a folder")


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "/etc"])
def test_path_is_not_a_suite_name(tmp_path: Path, name: str) -> None:
    make(tmp_path, "x", "a")
    assert "invalid suite name" in rejection(name, tmp_path / "y").message


def test_remedy_for_a_wrong_suite_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "my tasks", "x", "a")
    monkeypatch.chdir(tmp_path)
    assert rejection("my tasks/x", tmp_path).remedy == "use --tasks-dir 'my tasks' --suite x"
    assert "rename the folder" in rejection("my tasks", tmp_path).remedy


def test_empty_folder_is_not_a_suite(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "one").mkdir()
    (tmp_path / "dev" / "one" / "task.yml").touch()
    error = rejection("dev", tmp_path)
    assert "no suite `dev`" in error.message
    assert error.remedy == f"{tmp_path / 'dev'} has no tasks: each is a folder with a task.yaml"
    assert available(tmp_path) == ["demo"]


def test_bundled_suite_takes_precedence(tmp_path: Path) -> None:
    make(tmp_path, "demo", "mine")
    folder = suite_folder("demo", tmp_path)
    assert folder.name == "demo"
    assert tmp_path not in folder.parents


@pytest.mark.req("C-11")
def test_suite_digest_depends_on_tasks_and_weights(tmp_path: Path) -> None:
    make(tmp_path / "one", "dev", "a", "b")
    make(tmp_path / "two", "dev", "b", "a")
    (tmp_path / "two" / "dev" / "folder-a").rename(tmp_path / "two" / "dev" / "zzz")
    first = load_suite("dev", tmp_path / "one").digest
    assert load_suite("dev", tmp_path / "two").digest == first
    (tmp_path / "two" / "dev" / "scenario.yaml").write_text("weights: {minimal: 1, trace: 0, maintainability: 0}")
    assert load_suite("dev", tmp_path / "two").digest != first


@pytest.mark.req("C-12a")
def test_task_can_override_scenario_scorers_by_name(tmp_path: Path) -> None:
    make(tmp_path, "dev", "a")
    own = {"name": "small", "type": "max_files_changed", "limit": 9}
    write_task(tmp_path / "dev" / "b", task_with(id="b", suite="dev", scorers=[own], judge={"rubric": "mine"}))
    (tmp_path / "dev" / "scenario.yaml").write_text(
        "scorers:\n  - {name: small, type: max_files_changed, limit: 3}\njudge: {rubric: theirs}\n"
    )
    suite = load_suite("dev", tmp_path)
    limits = [loaded.scorers[0].model_dump()["limit"] for loaded in suite.tasks]
    assert limits == [3, 9]
    assert [loaded.judge.rubric for loaded in suite.tasks if loaded.judge] == ["theirs", "mine"]


@pytest.mark.req("C-12a")
@pytest.mark.parametrize(
    "text, words",
    [
        (
            "weights: {minimal: 0.5, trace: 0.2, maintainability: 0.4}",
            "scenario.yaml:1: weights: expected weights that sum",
        ),
        ("weights: {minimal: -1}", "expected at least 0"),
        ("scorer: []", "(did you mean `scorers`?)"),
        ("scorers: [{name: a}]", "scorers[0].type: missing"),
        ("scorers: [{name: a, type: b}, {name: a, type: b}]", "two scorers have the name"),
        ("a: 1\na: 2\n", "duplicate key"),
        ("- x", "expected a mapping"),
    ],
)
def test_invalid_scenario_is_rejected_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    make(tmp_path, "dev", "a")
    (tmp_path / "dev" / "scenario.yaml").write_text(text)
    problems = rejection("dev", tmp_path).problems
    assert sum(words in problem for problem in problems) == 1, problems


def test_problem_of_a_scenario_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "tasks", "dev", "a")
    make(tmp_path / "tasks", "dev", "b")
    (tmp_path / "tasks" / "dev" / "scenario.yaml").write_text("scorer: []")
    monkeypatch.chdir(tmp_path)
    assert rejection("dev", Path("tasks")).message == "suite dev: 1 problem"


def test_default_weights_match_the_documentation(tmp_path: Path) -> None:
    weights = load_scenario(tmp_path).weights
    assert (weights.minimal, weights.trace, weights.maintainability) == (0.4, 0.2, 0.4)
