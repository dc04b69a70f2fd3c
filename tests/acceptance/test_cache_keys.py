"""Results about a base repository stay valid as long as nothing changes that they depend on."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from agentbench.acceptance.cache_keys import check_key, command_key
from agentbench.acceptance.collect import collect
from agentbench.acceptance.grade import grade
from agentbench.acceptance.grading_context import GradingContext
from agentbench.acceptance.validation import baseline
from agentbench.contract.load import load_task
from agentbench.contract.make_lock import Resolution, make_lock
from tests.acceptance.toy import FIXED, TaskFactory, patch_of

pytestmark = pytest.mark.component
COMMAND = {"id": "unit", "command": "pytest -q", "parser": "pytest"}


def names(context: GradingContext) -> list[str]:
    return sorted(path.name for path in context.cache.glob("*.json"))


def test_grading_after_locking_surveys_nothing_again(tasks: TaskFactory, tmp_path: Path) -> None:
    context = tasks.context(tmp_path, oracle={"checks": [COMMAND]})
    context = dataclasses.replace(context, cache=tmp_path / "cache")  # other tests fill the shared one meanwhile
    locked = context.loaded.with_lock(make_lock(context.loaded, Resolution(checks=collect(context).checks)))
    assert locked.checks[0].pass_to_pass
    before = names(context)
    context = dataclasses.replace(context, loaded=locked)
    assert baseline(context).failed_as_expected
    assert grade(patch_of(context, {"src/toy/core.py": FIXED}), context, decoys=False).accepted
    assert [name.partition("-")[0] for name in names(context) if name not in before] == ["baseline"]


def test_test_ids_and_task_id_do_not_change_the_key_of_a_command(tasks: TaskFactory, tmp_path: Path) -> None:
    context = tasks.context(tmp_path, oracle={"checks": [COMMAND]})
    check = context.loaded.checks[0]
    listed = check.model_copy(update={"fail_to_pass": ("tests/test_a.py::test_a",)})
    file = context.loaded.folder / "task.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("id: ", "id: renamed-", 1), encoding="utf-8")
    renamed = dataclasses.replace(context, loaded=load_task(context.loaded.folder))
    assert renamed.loaded.id != context.loaded.id
    assert {command_key(context, check), command_key(context, listed)} == {command_key(renamed, check)}
    assert check_key(context, check) == check_key(renamed, check) != check_key(context, listed)


def test_hidden_files_limits_and_timeouts_change_the_key(tasks: TaskFactory, tmp_path: Path) -> None:
    context = tasks.context(tmp_path, oracle={"checks": [COMMAND]})
    check = context.loaded.checks[0]
    keys = {command_key(context, check), command_key(context, check.model_copy(update={"timeout_sec": 7}))}
    limits = dataclasses.replace(context.spec.limits, memory_mb=64)
    keys.add(command_key(dataclasses.replace(context, spec=dataclasses.replace(context.spec, limits=limits)), check))
    next((context.loaded.folder / "hidden").rglob("*.py")).write_text("changed = True\n", encoding="utf-8")
    keys.add(command_key(context, check))
    assert len(keys) == 4
