"""Locks that are kept between commands."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from agentbench.authoring.environment.known_locks import KnownLock, KnownLocks

pytestmark = [pytest.mark.req("C-17"), pytest.mark.component]


def lock(cutoff: str) -> KnownLock:
    return KnownLock(cutoff=cutoff, commands=("x",), freeze=("a==1",), plan="own")


def test_locks_are_found_by_another_command_with_the_same_request(tmp_path: Path) -> None:
    KnownLocks().add(tmp_path, ["packaging", "3.11"], lock("2023-01-01"))
    KnownLocks().add(tmp_path, ["packaging", "3.11"], lock("2023-01-02"))
    assert [known.cutoff for known in KnownLocks().find(tmp_path, ["packaging", "3.11"])] == [
        "2023-01-01",
        "2023-01-02",
    ]
    assert KnownLocks().find(tmp_path, ["packaging", "3.12"]) == ()


def test_other_index_is_another_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://one.example/simple")
    KnownLocks().add(tmp_path, [], lock("2023-01-01"))
    monkeypatch.setenv("PIP_INDEX_URL", "https://two.example/simple")
    assert KnownLocks().find(tmp_path, []) == ()


def test_lock_of_a_day_that_is_not_over_is_not_kept(tmp_path: Path) -> None:
    KnownLocks().add(tmp_path, [], lock((dt.datetime.now(dt.UTC).date() + dt.timedelta(days=1)).isoformat()))
    assert KnownLocks().find(tmp_path, []) == ()


def test_damaged_file_is_ignored_and_replaced(tmp_path: Path) -> None:
    KnownLocks().add(tmp_path, [], lock("2023-01-01"))
    (file,) = (tmp_path / "locks").iterdir()
    file.write_text("{")
    assert KnownLocks().find(tmp_path, []) == ()
    KnownLocks().add(tmp_path, [], lock("2023-01-01"))
    assert len(KnownLocks().find(tmp_path, [])) == 1
