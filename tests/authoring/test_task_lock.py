"""Only one command at a time creates a task; others wait, and nothing is left behind."""

from __future__ import annotations

import queue
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import pytest

from agentbench.authoring.commit.commit_reader import TaskRequest
from agentbench.authoring.commit.from_commit import CreatedTask, from_commit
from agentbench.authoring.harvest.harvest import HarvestRequest, harvest
from agentbench.authoring.task_lock import TaskExists, TaskLocation, locked_draft, publish
from agentbench.contract.load import load_task
from agentbench.core.errors import InputError, Interrupted
from agentbench.execution.lab import Lab
from tests.authoring.conftest import FIX, put

pytestmark = [pytest.mark.req("C-18"), pytest.mark.component]
LONG = 120.0
"""Timeout, so that a failing test does not hang."""


def write_draft(folder: Path) -> None:
    folder.mkdir()
    (folder / "task.yaml").write_text("id: task\n")


def create_task(location: TaskLocation, notify: Callable[[str], None], cancelled: threading.Event) -> str:
    with locked_draft(location, notify=notify, cancelled=cancelled) as (target, draft):
        write_draft(draft)
        publish(draft, target)
    return "created"


def test_second_command_waits_and_creates_the_task(tmp_path: Path) -> None:
    location, messages = TaskLocation(tmp_path / "suite", "task"), queue.Queue[str]()
    with ThreadPoolExecutor(1) as pool:
        with locked_draft(location) as (_, folder):
            folder.mkdir()
            other = pool.submit(create_task, location, messages.put, threading.Event())
            assert messages.get(timeout=LONG) == "task: waiting for another command that creates it"
            assert folder.is_dir()
        assert other.result(LONG) == "created"
    assert [path.name for path in tmp_path.iterdir()] == ["suite"]


def test_second_command_finds_the_task_of_the_first(tmp_path: Path) -> None:
    location, messages = TaskLocation(tmp_path / "suite", "task", remedy="use another suite"), queue.Queue[str]()
    with ThreadPoolExecutor(1) as pool:
        with locked_draft(location) as (place, folder):
            other = pool.submit(create_task, location, messages.put, threading.Event())
            messages.get(timeout=LONG)
            write_draft(folder)
            publish(folder, place)
        with pytest.raises(TaskExists, match="task already exists") as caught:
            other.result(LONG)
    assert caught.value.remedy == "use another suite"
    assert place.is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["suite"]


def test_waiting_can_be_interrupted(tmp_path: Path) -> None:
    location, messages, cancelled = TaskLocation(tmp_path / "suite", "task"), queue.Queue[str](), threading.Event()
    with ThreadPoolExecutor(1) as pool, locked_draft(location):
        other = pool.submit(create_task, location, messages.put, cancelled)
        messages.get(timeout=LONG)
        cancelled.set()
        with pytest.raises(Interrupted):
            other.result(LONG)


def test_draft_is_never_used_by_two_threads(tmp_path: Path) -> None:
    def work(number: int) -> None:
        location = TaskLocation(tmp_path / "suite", f"task{number % 2}")
        with locked_draft(location) as (_, folder):
            folder.mkdir()  # raises if another thread holds the lock
            (folder / "file").write_text("x")

    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(work, number) for number in range(200)]:
            future.result(LONG)
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_a_killed_command_are_removed(tmp_path: Path) -> None:
    location = TaskLocation(tmp_path / "suite", "task")
    location.draft().mkdir(parents=True)
    location.draft().with_name(".task.lock").touch()
    with locked_draft(location):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("existing", ["file", "link"])
def test_invalid_draft_folder_is_named(tmp_path: Path, existing: str) -> None:
    location = TaskLocation(tmp_path / "suite", "task")
    drafts = location.draft().parent
    drafts.touch() if existing == "file" else drafts.symlink_to("nowhere")
    with pytest.raises(InputError, match=r"\.suite\.draft"), locked_draft(location):
        pass


# --- a commit ----------------------------------------------------------------------------------------------------


def request_for(repo: Path) -> TaskRequest:
    return TaskRequest(repo=str(repo), suite_dir=repo.parent / "tasks/mine", pin=False, timeout_sec=60)


def test_concurrent_commands_create_a_task_once(repo: Path, lab: Lab) -> None:
    fix = put(repo, FIX, "Fix half of odd numbers")
    both = threading.Barrier(2)

    def create() -> CreatedTask:
        both.wait(LONG)
        return from_commit(request_for(repo), fix, lab)

    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(create) for _ in range(2)]
        errors = [error for run in runs if (error := run.exception(LONG)) is not None]
    assert [type(error) for error in errors] == [TaskExists]
    (folder,) = (repo.parent / "tasks").glob("mine/*")
    assert load_task(folder).checks[0].fail_to_pass
    assert sorted(path.name for path in (repo.parent / "tasks").iterdir()) == ["mine"]


def test_harvest_accepts_a_task_created_by_another_command(repo: Path, lab: Lab, tmp_path: Path) -> None:
    fix = put(repo, FIX, "Fix half of odd numbers")
    created = from_commit(request_for(repo), fix, lab)
    kept = shutil.copytree(created.folder, tmp_path / "kept")
    shutil.rmtree(created.folder)
    request = HarvestRequest(
        task=request_for(repo), heldout_dir=tmp_path / "tasks/held", ledger=tmp_path / "tasks/mine.json", heldout=0
    )

    def overtaken(*_: object, **__: object) -> None:
        shutil.copytree(kept, created.folder)
        raise TaskExists("already exists")

    with mock.patch("agentbench.authoring.harvest.harvest.from_commit", overtaken):
        done = harvest(request, lab, notify=lambda _line: None)
    assert [(verdict.kind, verdict.task_id) for verdict in done.verdicts] == [("accepted", created.draft.id)]
