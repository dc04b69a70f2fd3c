"""One maker of a task at a time: who comes second waits, and what is left behind is nothing."""

from __future__ import annotations

import queue
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import pytest

from agentbench.authoring.commit.from_commit import Made, Wanted, from_commit
from agentbench.authoring.harvest.harvest import Request, harvest
from agentbench.authoring.task_lock import Patience, PlaceTaken, Site, publish, workshop
from agentbench.contract.load import load_task
from agentbench.core.errors import InputError, Interrupted
from agentbench.run.lab import Lab
from tests.authoring.conftest import FIX, put

pytestmark = pytest.mark.req("C-18")
LONG = 120.0
"""Only so that a test which fails does not hang."""


def second(site: Site, heard: Callable[[str], None], cancelled: threading.Event) -> str:
    with workshop(site, Patience(heard, cancelled)) as (place, folder):
        folder.mkdir()
        publish(folder, place)
    return "made"


def test_who_comes_second_waits_and_makes_what_the_first_did_not(tmp_path: Path) -> None:
    site, heard = Site(tmp_path / "suite", "task"), queue.Queue[str]()
    with ThreadPoolExecutor(1) as pool:
        with workshop(site) as (_, folder):
            folder.mkdir()
            other = pool.submit(second, site, heard.put, threading.Event())
            assert heard.get(timeout=LONG) == "task: another command is making it; waiting"
            assert folder.is_dir()
        assert other.result(LONG) == "made"
    assert [path.name for path in tmp_path.iterdir()] == ["suite"]


def test_who_comes_second_finds_what_the_first_made(tmp_path: Path) -> None:
    site, heard = Site(tmp_path / "suite", "task", remedy="go elsewhere"), queue.Queue[str]()
    with ThreadPoolExecutor(1) as pool:
        with workshop(site) as (place, folder):
            other = pool.submit(second, site, heard.put, threading.Event())
            heard.get(timeout=LONG)
            folder.mkdir()
            publish(folder, place)
        with pytest.raises(PlaceTaken, match="task exists already") as found:
            other.result(LONG)
    assert found.value.remedy == "go elsewhere"
    assert place.is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["suite"]


def test_waiting_can_be_interrupted(tmp_path: Path) -> None:
    site, heard, cancelled = Site(tmp_path / "suite", "task"), queue.Queue[str](), threading.Event()
    with ThreadPoolExecutor(1) as pool, workshop(site):
        other = pool.submit(second, site, heard.put, cancelled)
        heard.get(timeout=LONG)
        cancelled.set()
        with pytest.raises(Interrupted):
            other.result(LONG)


def test_many_makers_come_and_go_and_never_two_of_one_task(tmp_path: Path) -> None:
    def work(number: int) -> None:
        site = Site(tmp_path / "suite", f"task{number % 2}")
        with workshop(site) as (_, folder):
            folder.mkdir()  # raises where another is at work
            (folder / "file").write_text("x")

    with ThreadPoolExecutor(8) as pool:
        for one in [pool.submit(work, number) for number in range(200)]:
            one.result(LONG)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_maker_left_is_no_hindrance(tmp_path: Path) -> None:
    site = Site(tmp_path / "suite", "task")
    site.draft().mkdir(parents=True)
    site.draft().with_name(".task.lock").touch()
    with workshop(site):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("there", ["file", "link"])
def test_a_folder_of_drafts_that_is_none_is_named(tmp_path: Path, there: str) -> None:
    site = Site(tmp_path / "suite", "task")
    drafts = site.draft().parent
    drafts.touch() if there == "file" else drafts.symlink_to("nowhere")
    with pytest.raises(InputError, match=r"\.suite\.draft"), workshop(site):
        pass


# --- a commit ----------------------------------------------------------------------------------------------------


def wanted(repo: Path) -> Wanted:
    return Wanted(repo=str(repo), suite_dir=repo.parent / "tasks/mine", pin=False, timeout_sec=60)


def test_one_commit_twice_at_once_is_made_once(repo: Path, lab: Lab) -> None:
    fix = put(repo, FIX, "Fix half of odd numbers")
    both = threading.Barrier(2)

    def make() -> Made:
        both.wait(LONG)
        return from_commit(wanted(repo), fix, lab)

    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(make) for _ in range(2)]
        errors = [error for run in runs if (error := run.exception(LONG)) is not None]
    assert [type(error) for error in errors] == [PlaceTaken]
    (folder,) = (repo.parent / "tasks").glob("mine/*")
    assert load_task(folder).checks[0].fail_to_pass
    assert sorted(path.name for path in (repo.parent / "tasks").iterdir()) == ["mine"]


def test_a_harvest_takes_as_made_what_another_command_makes_meanwhile(repo: Path, lab: Lab, tmp_path: Path) -> None:
    fix = put(repo, FIX, "Fix half of odd numbers")
    made = from_commit(wanted(repo), fix, lab)
    kept = shutil.copytree(made.folder, tmp_path / "kept")
    shutil.rmtree(made.folder)
    request = Request(
        wanted=wanted(repo), heldout_dir=tmp_path / "tasks/held", ledger=tmp_path / "tasks/mine.json", workers=1
    )

    def overtaken(*_: object, **__: object) -> None:
        shutil.copytree(kept, made.folder)
        raise PlaceTaken("exists already")

    with mock.patch("agentbench.authoring.harvest.harvest.from_commit", overtaken):
        done = harvest(request, lab, tell=lambda _line: None)
    assert [(one.kind, one.task_id) for one in done.verdicts] == [("accepted", made.draft.id)]
