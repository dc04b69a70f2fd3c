from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.contract.scenario import load_scenario
from agentbench.contract.suite import Suite, available, load_suite, suite_folder
from agentbench.core.errors import ContractError
from tests.contract.writing import task_with, write_task


def make(tasks: Path, suite: str, *ids: str) -> None:
    for name in ids:
        write_task(tasks / suite / f"folder-{name}", task_with(id=name, suite=suite))


def refusal(name: str, tasks: Path) -> ContractError:
    with pytest.raises(ContractError) as caught:
        load_suite(name, tasks)
    assert caught.value.exit_code == 2
    return caught.value


@pytest.mark.req("C-01")
def test_a_suite_is_its_tasks_in_the_order_of_their_ids(tmp_path: Path) -> None:
    make(tmp_path, "dev", "b", "a", "c")
    (tmp_path / "dev" / "README.md").write_text("")
    (tmp_path / "dev" / "shared").mkdir()
    suite = load_suite("dev", tmp_path)
    assert isinstance(suite, Suite)
    assert [loaded.task.id for loaded in suite.tasks] == ["a", "b", "c"]
    assert suite.folder == tmp_path / "dev"


@pytest.mark.req("C-01")
def test_a_task_that_names_another_suite_than_its_folder_is_refused(tmp_path: Path) -> None:
    make(tmp_path, "dev", "a")
    write_task(tmp_path / "dev" / "b", task_with(id="b", suite="held-out"))
    (problem,) = refusal("dev", tmp_path).problems
    assert problem.endswith("dev/b/task.yaml: suite: expected dev, as the folder is called; got held-out")


@pytest.mark.req("C-01")
def test_one_id_for_two_tasks_is_refused_with_both_files(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        write_task(tmp_path / "dev" / folder, task_with(id="same", suite="dev"))
    (problem,) = refusal("dev", tmp_path).problems
    assert "dev/x/task.yaml" in problem
    assert "dev/y/task.yaml" in problem


@pytest.mark.req("C-01")
def test_all_broken_tasks_of_a_suite_are_named(tmp_path: Path) -> None:
    make(tmp_path, "dev", "good")
    write_task(tmp_path / "dev" / "bad1", "id: [")
    write_task(tmp_path / "dev" / "bad2", task_with(id=None, suite="dev"))
    (tmp_path / "dev" / "bad3").mkdir()
    (tmp_path / "dev" / "bad3" / "task.yml").write_text("")
    error = refusal("dev", tmp_path)
    assert len(error.problems) == 3
    assert all(f"bad{n}/task.y" in " ".join(error.problems) for n in (1, 2, 3))


def test_an_unknown_suite_lists_those_that_exist_and_guesses(tmp_path: Path) -> None:
    make(tmp_path, "custom-dev", "a")
    make(tmp_path, "custom-heldout", "a")
    error = refusal("custom-dv", tmp_path)
    assert "(did you mean `custom-dev`?)" in error.message
    assert "available: custom-dev, custom-heldout, demo" in error.message
    assert "available: demo" in refusal("x", tmp_path / "nowhere").message


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "/etc"])
def test_a_path_is_not_a_suite_name(tmp_path: Path, name: str) -> None:
    make(tmp_path, "x", "a")
    assert "is not the name of a suite" in refusal(name, tmp_path / "y").message


def test_an_empty_folder_is_no_suite(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    assert "there is no suite dev" in refusal("dev", tmp_path).message
    assert available(tmp_path) == ["demo"]


def test_the_bundled_suite_is_found_wherever_tasks_are_looked_for(tmp_path: Path) -> None:
    make(tmp_path, "demo", "mine")
    folder = suite_folder("demo", tmp_path)
    assert folder.name == "demo"
    assert tmp_path not in folder.parents


@pytest.mark.req("C-11")
def test_the_digest_of_a_suite_follows_its_tasks_and_weights(tmp_path: Path) -> None:
    make(tmp_path / "one", "dev", "a", "b")
    make(tmp_path / "two", "dev", "b", "a")
    (tmp_path / "two" / "dev" / "folder-a").rename(tmp_path / "two" / "dev" / "zzz")
    first = load_suite("dev", tmp_path / "one").digest
    assert load_suite("dev", tmp_path / "two").digest == first
    (tmp_path / "two" / "dev" / "scenario.yaml").write_text("weights: {minimal: 1, trace: 0, maintainability: 0}")
    assert load_suite("dev", tmp_path / "two").digest != first


@pytest.mark.req("C-12")
def test_scenario_scorers_reach_every_task_and_a_task_may_replace_them_by_name(tmp_path: Path) -> None:
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


@pytest.mark.req("C-12")
@pytest.mark.parametrize(
    "text, words",
    [
        (
            "weights: {minimal: 0.5, trace: 0.2, maintainability: 0.4}",
            "scenario.yaml:1: weights: expected weights that sum",
        ),
        ("weights: {minimal: -1}", "expected at least 0"),
        ("scorer: []", "(did you mean `scorers`?)"),
        ("scorers: [{name: a}]", "scorers[0].type: is missing"),
        ("scorers: [{name: a, type: b}, {name: a, type: b}]", "the name of two scorers"),
        ("a: 1\na: 2\n", "is given twice"),
        ("- x", "expected a mapping"),
    ],
)
def test_a_broken_scenario_is_refused_at_its_line(tmp_path: Path, text: str, words: str) -> None:
    make(tmp_path, "dev", "a")
    (tmp_path / "dev" / "scenario.yaml").write_text(text)
    problems = refusal("dev", tmp_path).problems
    assert sum(words in problem for problem in problems) == 1, problems


def test_a_suite_without_a_scenario_has_the_documented_weights(tmp_path: Path) -> None:
    weights = load_scenario(tmp_path).weights
    assert (weights.minimal, weights.trace, weights.maintainability) == (0.4, 0.2, 0.4)
