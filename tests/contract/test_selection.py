"""Tasks are selected by id, glob, stratum and earlier result; a selection without tasks is refused with what there is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from agentbench.contract.load import LoadedTask
from agentbench.contract.selection import FailedTasks, Selection
from agentbench.contract.suite import load_suite
from agentbench.core.errors import ContractError, InputError
from tests.execution.tasks import make_task

STRATA = {
    "fix-median": "{kind: bugfix, test_runtime: short}",
    "fix-mode": "{kind: bugfix, test_runtime: long}",
    "move-parser": "{kind: refactor, test_runtime: short}",
    "plain": "",
}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Sequence[LoadedTask]:
    folder = tmp_path_factory.mktemp("tasks")
    for name, strata in STRATA.items():
        make_task(folder / "tiny" / name, task_id=name, more=f"strata: {strata}\n" if strata else "")
    return load_suite("tiny", folder).tasks


def ids(selection: Selection, tasks: Sequence[LoadedTask]) -> list[str]:
    return [task.id for task in selection.of(tasks, "suite tiny")]


@pytest.mark.parametrize(
    "selection, selected",
    [
        (Selection(), ["fix-median", "fix-mode", "move-parser", "plain"]),
        (Selection(patterns=("plain",)), ["plain"]),
        (Selection(patterns=("plain", "fix-*")), ["fix-median", "fix-mode", "plain"]),
        (Selection(patterns=("fix-m[eo]d*",), limit=1), ["fix-median"]),
        (Selection(strata=(("kind", "bugfix"),)), ["fix-median", "fix-mode"]),
        (Selection(strata=(("kind", "bugfix"), ("kind", "refactor"))), ["fix-median", "fix-mode", "move-parser"]),
        (Selection(strata=(("kind", "bugfix"), ("test_runtime", "long"))), ["fix-mode"]),
        (Selection(failed=FailedTasks("01K", "run", frozenset({"plain", "gone"}))), ["plain"]),
    ],
)
def test_selected_tasks(selection: Selection, selected: list[str], tasks: Sequence[LoadedTask]) -> None:
    assert ids(selection, tasks) == selected


@pytest.mark.parametrize(
    "selection, message, remedy",
    [
        (Selection(patterns=("plian",)), "--task plian matches no task of suite tiny (did you mean `plain`?)", "fix-mode"),
        (Selection(patterns=("plain", "fix_*")), "--task fix_* matches no task", "available: fix-median"),
        (Selection(strata=(("knd", "bugfix"),)), "unknown stratum (did you mean `kind`?)", "test_runtime"),
        (Selection(strata=(("kind", "docs"),)), "--stratum kind=docs matches no task", "values of kind: bugfix, refactor"),
        (Selection(("plain",), (("kind", "bugfix"),)), "no task of suite tiny matches --task plain --stratum", "plain"),
        (Selection(failed=FailedTasks("01K", "RUN", frozenset())), "every attempt of RUN that counts has passed", "ab retry"),
    ],
)  # fmt: skip
def test_empty_selection_is_refused(
    selection: Selection, message: str, remedy: str, tasks: Sequence[LoadedTask]
) -> None:
    with pytest.raises(InputError) as caught:
        ids(selection, tasks)
    assert message in caught.value.message
    assert remedy in str(caught.value.remedy)


def test_all_problems_of_a_selection_are_listed(tasks: Sequence[LoadedTask]) -> None:
    selection = Selection(("plian", "gone"), (("knd", "bugfix"), ("kind", "docs")))
    with pytest.raises(ContractError) as caught:
        ids(selection, tasks)
    assert caught.value.message == "4 problems"
    for option, problem in zip(
        ("--task plian", "--task gone", "--stratum knd", "--stratum kind=docs"), caught.value.problems, strict=True
    ):
        assert problem.startswith(option)


def test_record_of_a_selection_states_its_share(tasks: Sequence[LoadedTask], tmp_path: Path) -> None:
    assert Selection().as_json(4, 4) is None
    record = Selection(patterns=("fix-*",), limit=1).as_json(1, len(tasks))
    assert record == {"options": "--task fix-* --limit 1", "failed_of": None, "selected": 1, "available": 4}
