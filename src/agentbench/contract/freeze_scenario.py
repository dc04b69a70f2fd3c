"""Freeze the scorers and the judge of a suite into a task that is being created.

Later edits of `scenario.yaml` then do not change how the task is graded, until `ab task lock --follow-suite` updates it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import yaml

from agentbench.contract.load import SCENARIO_NAME, LoadedTask, load_scenario
from agentbench.core.errors import InputError
from agentbench.core.text import shell_quoted

_COMMENT = "The suite's scorers and judge when this task was created. Remove this key to follow scenario.yaml."


def freeze_scenario(text: str, suite_folder: Path) -> str:
    """Return the text of a `task.yaml` with the current scenario of its suite, unless it has one already.

    Raises:
        ContractError: the scenario of the suite is not valid.
    """
    if "scenario" in (yaml.safe_load(text) or {}):
        return text
    frozen = load_scenario(suite_folder).frozen().model_dump(mode="json", by_alias=True, exclude_none=True)
    document = yaml.safe_dump({"scenario": frozen}, sort_keys=False, allow_unicode=True, width=118)
    return f"{text.rstrip()}\n\n# {_COMMENT}\n{document}"


def without_frozen_scenario(task: LoadedTask) -> LoadedTask:
    """Return a task with the current scorers and judge of its suite, and its text without the key `scenario`.

    Raises:
        InputError: the key cannot be cut out of the text.
        ContractError: the scenario of the suite is not valid.
    """
    current = load_scenario(task.folder.parent).frozen()
    if task.task.scenario is None:
        return replace(task, scenario=current)
    members = [(key.value, key.start_mark.line) for key, _ in yaml.compose(task.text).value]
    begin = dict(members)["scenario"]
    lines = task.text.splitlines(keepends=True)
    end = min((line for _, line in members if line > begin), default=len(lines))
    begin -= begin > 0 and lines[begin - 1].strip() == f"# {_COMMENT}"
    text = "".join((*lines[:begin], *lines[end:])).rstrip() + "\n"
    expected = {name: value for name, value in yaml.safe_load(task.text).items() if name != "scenario"}
    if _parsed(text) != expected:
        raise InputError(f"{task.file}: cannot remove the key `scenario`", remedy="remove it by hand")
    return replace(task, task=task.task.model_copy(update={"scenario": None}), text=text, scenario=current)


def _parsed(text: str) -> object:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None


def with_other_scenario(tasks: Iterable[LoadedTask]) -> list[LoadedTask]:
    """Return the tasks that keep other scorers or another judge than `scenario.yaml` of their suite has now."""
    current = cache(load_scenario)
    return [
        task
        for task in tasks
        if os.path.lexists(task.folder.parent / SCENARIO_NAME) and task.scenario != current(task.folder.parent).frozen()
    ]


def notice_of_other_scenario(tasks: Iterable[LoadedTask]) -> str:
    """Say how many tasks do not follow the current scenario of their suite, and what makes them; empty if all do."""
    loaded = list(tasks)
    others = with_other_scenario(loaded)
    if not others:
        return ""
    folders = {task.folder if len(others) == 1 else task.folder.parent: None for task in others}
    command = " ".join(("ab task lock --follow-suite", *map(shell_quoted, folders)))
    keep = "keeps" if len(others) == 1 else "keep"
    return (
        f"{len(others)} of {len(loaded)} task{'' if len(loaded) == 1 else 's'} {keep} other scorers or another judge than {SCENARIO_NAME} has now, "
        f"as created or locked; to use those of the suite: {command}"
    )
