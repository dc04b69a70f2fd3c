"""Finding control groups on machines unlike this one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentbench.sandbox.cgroups import cpu_seconds, discover, megabytes, oom_kills, program_memory
from agentbench.sandbox.memory_limit import MemoryGauge
from agentbench.sandbox.protocol import Limits


def folder(path: Path, controllers: str = "", enabled: str = "") -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "cgroup.procs").write_text("")
    if controllers:
        (path / "cgroup.controllers").write_text(controllers)
        (path / "cgroup.subtree_control").write_text(enabled)
    return path


def mount(point: Path, kind: str, options: str, root: str = "/") -> str:
    return f"30 20 0:26 {root} {point} rw,relatime shared:1 - {kind} {kind} rw,{options}\n"


def test_version_1_hierarchies_are_used_below_our_own_groups(tmp_path: Path) -> None:
    folder(tmp_path / "memory/here")
    folder(tmp_path / "cpu")
    found = discover(
        "me",
        mountinfo=mount(tmp_path / "memory", "cgroup", "memory") + mount(tmp_path / "cpu", "cgroup", "cpu,cpuacct"),
        membership="4:memory:/here\n3:cpu,cpuacct:/\n0::/\n",
    )
    assert found.version == 1
    assert found.controllers == {"memory", "cpu", "cpuacct"}
    assert found.owner_dirs() == [tmp_path / "memory/here/agentbench-me", tmp_path / "cpu/agentbench-me"]
    plan = found.plan("box", Limits(cpus=1.5, memory_mb=10, pids=7, disk_mb=5), 15 << 20)
    assert dict(plan.settings) == {
        f"{tmp_path}/memory/here/agentbench-me/box": [("memory.limit_in_bytes", str(15 << 20))],
        f"{tmp_path}/cpu/agentbench-me/box": [("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "150000")],
    }
    assert plan.files["oom"].endswith("/box/memory.oom_control")


def test_version_2_uses_a_delegated_group(tmp_path: Path) -> None:
    folder(tmp_path / "user/me", "cpu memory pids io", "cpu memory pids")
    found = discover("me", mountinfo=mount(tmp_path, "cgroup2", "nsdelegate"), membership="0::/user/me\n")
    assert found.version == 2
    assert found.controllers == {"memory", "cpu", "pids"}
    plan = found.plan("box", Limits(cpus=0.5, memory_mb=10, pids=7), 1000)
    (settings,) = plan.settings.values()
    assert settings == [
        ("memory.max", "1000"),
        ("memory.swap.max", "0"),
        ("pids.max", "7"),
        ("cpu.max", "50000 100000"),
    ]
    found.create_owner_dirs()
    enabled = (tmp_path / "user/me/agentbench-me/cgroup.subtree_control").read_text()
    assert enabled == "+cpu +memory +pids"


def test_version_2_scope_of_our_own_is_vacated_first(tmp_path: Path) -> None:
    scope = folder(tmp_path / "run.scope", "cpu memory pids", "")
    (scope / "cgroup.procs").write_text(f"{os.getpid()}\n")
    (scope / "agentbench-harness").mkdir()
    found = discover("me", mountinfo=mount(tmp_path, "cgroup2", "nsdelegate"), membership="0::/run.scope\n")
    assert found.owner_dirs() == [scope / "agentbench-me"]
    assert (scope / "agentbench-harness/cgroup.procs").read_text() == str(os.getpid())
    assert (scope / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"


def test_version_2_group_with_others_in_it_is_left_as_it_is(tmp_path: Path) -> None:
    session = folder(tmp_path / "session.scope", "cpu memory pids", "")
    (session / "cgroup.procs").write_text(f"1\n{os.getpid()}\n")
    discover("me", mountinfo=mount(tmp_path, "cgroup2", "nsdelegate"), membership="0::/session.scope\n")
    assert not (session / "agentbench-harness").exists()


def test_version_2_without_delegation_gives_none(tmp_path: Path) -> None:
    (tmp_path / "user").mkdir()
    found = discover("me", mountinfo=mount(tmp_path, "cgroup2", "nsdelegate"), membership="0::/user\n")
    assert found.version is None
    assert found.controllers == frozenset()
    assert dict(found.plan("box", Limits(), 1).settings) == {}


def test_only_a_part_of_the_hierarchy_is_mounted(tmp_path: Path) -> None:
    folder(tmp_path / "memory")
    found = discover(
        "me",
        mountinfo=mount(tmp_path / "memory", "cgroup", "memory", root="/docker/abc"),
        membership="4:memory:/docker/abc\n",
    )
    assert found.owner_dirs() == [tmp_path / "memory/agentbench-me"]


def test_nothing_mounted() -> None:
    assert discover("me", mountinfo="", membership="0::/\n").controllers == frozenset()


@pytest.mark.parametrize(
    "text,expected",
    [("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", 3), ("low 0\noom 4\noom_kill 2\n", 2), ("", None), ("x", None)],
)
def test_oom_kills_of_both_versions(text: str, expected: int | None) -> None:
    assert oom_kills(text) == expected


def test_numbers_of_both_versions() -> None:
    assert cpu_seconds("2500000000\n") == 2.5
    assert cpu_seconds("usage_usec 1500000\nuser_usec 1\n") == 1.5
    assert cpu_seconds("") is None
    assert megabytes("1048576\n") == 1.0
    assert megabytes("max\n") is None


def test_what_programs_hold_is_told_apart_from_files_in_both_versions() -> None:
    assert program_memory("cache 7\nrss 5\nrss_huge 1\nshmem 3\n") == (5, 3)
    assert program_memory("anon 5\nfile 7\nkernel 2\nshmem 3\n") == (5, 3)
    assert program_memory("") == (0, 0)


def test_gauge_wants_proof_before_it_says_over(tmp_path: Path) -> None:
    files = {"memory": str(tmp_path / "usage"), "memory_stat": str(tmp_path / "stat")}
    gauge = MemoryGauge(files, 100, lambda: 60)
    assert not gauge.over()  # nothing to read
    for usage, stat, verdicts in (
        (90, "anon 90\nshmem 0\n", [False, False]),
        (170, "anon 90\nshmem 65\n", [False, False]),  # 60 of the shared are files
        (170, "anon 90\nshmem 75\n", [False, True]),  # a number that moved meanwhile would not be so twice
        (170, "anon 101\nshmem 0\n", [True, True]),
    ):
        (tmp_path / "usage").write_text(f"{usage}\n")
        (tmp_path / "stat").write_text(stat)
        assert [gauge.over(), gauge.over()] == verdicts
