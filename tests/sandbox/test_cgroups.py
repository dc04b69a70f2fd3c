"""Finding control groups on other kinds of machines, and reading numbers from them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentbench.sandbox.cgroups import cpu_seconds, discover, megabytes, oom_kills, program_memory
from agentbench.sandbox.protocol import Limits


def make_group(path: Path, controllers: str = "", enabled: str = "") -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "cgroup.procs").write_text("")
    if controllers:
        (path / "cgroup.controllers").write_text(controllers)
        (path / "cgroup.subtree_control").write_text(enabled)
    return path


def mount_line(point: Path, kind: str, options: str, root: str = "/") -> str:
    return f"30 20 0:26 {root} {point} rw,relatime shared:1 - {kind} {kind} rw,{options}\n"


def test_version_1_uses_the_groups_of_this_process(tmp_path: Path) -> None:
    make_group(tmp_path / "memory/here")
    make_group(tmp_path / "cpu")
    cgroups = discover(
        "me",
        mountinfo=mount_line(tmp_path / "memory", "cgroup", "memory")
        + mount_line(tmp_path / "cpu", "cgroup", "cpu,cpuacct"),
        membership="4:memory:/here\n3:cpu,cpuacct:/\n0::/\n",
    )
    assert cgroups.version == 1
    assert cgroups.controllers == {"memory", "cpu", "cpuacct"}
    assert cgroups.owner_dirs() == [tmp_path / "memory/here/agentbench-me", tmp_path / "cpu/agentbench-me"]
    plan = cgroups.plan("box", Limits(cpus=1.5, memory_mb=10, pids=7, disk_mb=5), 15 << 20)
    assert dict(plan.settings) == {
        f"{tmp_path}/memory/here/agentbench-me/box": [("memory.limit_in_bytes", str(15 << 20))],
        f"{tmp_path}/cpu/agentbench-me/box": [("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "150000")],
    }
    assert plan.files["oom"].endswith("/box/memory.oom_control")


def test_version_2_uses_a_delegated_group(tmp_path: Path) -> None:
    make_group(tmp_path / "user/me", "cpu memory pids io", "cpu memory pids")
    cgroups = discover("me", mountinfo=mount_line(tmp_path, "cgroup2", "nsdelegate"), membership="0::/user/me\n")
    assert cgroups.version == 2
    assert cgroups.controllers == {"memory", "cpu", "pids"}
    plan = cgroups.plan("box", Limits(cpus=0.5, memory_mb=10, pids=7), 1000)
    (settings,) = plan.settings.values()
    assert settings == [
        ("memory.max", "1000"),
        ("memory.swap.max", "0"),
        ("pids.max", "7"),
        ("cpu.max", "50000 100000"),
    ]
    cgroups.create_owner_dirs()
    enabled = (tmp_path / "user/me/agentbench-me/cgroup.subtree_control").read_text()
    assert enabled == "+cpu +memory +pids"


def test_version_2_moves_a_lone_process_out_of_its_scope(tmp_path: Path) -> None:
    scope = make_group(tmp_path / "run.scope", "cpu memory pids", "")
    (scope / "cgroup.procs").write_text(f"{os.getpid()}\n")
    (scope / "agentbench-harness").mkdir()
    cgroups = discover("me", mountinfo=mount_line(tmp_path, "cgroup2", "nsdelegate"), membership="0::/run.scope\n")
    assert cgroups.owner_dirs() == [scope / "agentbench-me"]
    assert (scope / "agentbench-harness/cgroup.procs").read_text() == str(os.getpid())
    assert (scope / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"


def test_version_2_group_with_other_processes_is_unchanged(tmp_path: Path) -> None:
    session = make_group(tmp_path / "session.scope", "cpu memory pids", "")
    (session / "cgroup.procs").write_text(f"1\n{os.getpid()}\n")
    discover("me", mountinfo=mount_line(tmp_path, "cgroup2", "nsdelegate"), membership="0::/session.scope\n")
    assert not (session / "agentbench-harness").exists()


def test_version_2_without_delegation_is_unusable(tmp_path: Path) -> None:
    (tmp_path / "user").mkdir()
    cgroups = discover("me", mountinfo=mount_line(tmp_path, "cgroup2", "nsdelegate"), membership="0::/user\n")
    assert cgroups.version is None
    assert cgroups.controllers == frozenset()
    assert dict(cgroups.plan("box", Limits(), 1).settings) == {}


def test_partially_mounted_hierarchy_is_used(tmp_path: Path) -> None:
    make_group(tmp_path / "memory")
    cgroups = discover(
        "me",
        mountinfo=mount_line(tmp_path / "memory", "cgroup", "memory", root="/docker/abc"),
        membership="4:memory:/docker/abc\n",
    )
    assert cgroups.owner_dirs() == [tmp_path / "memory/agentbench-me"]


def test_no_cgroup_mount_gives_no_controllers() -> None:
    assert discover("me", mountinfo="", membership="0::/\n").controllers == frozenset()


@pytest.mark.parametrize(
    "text,expected",
    [("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", 3), ("low 0\noom 4\noom_kill 2\n", 2), ("", None), ("x", None)],
)
def test_oom_kills_are_parsed_in_both_versions(text: str, expected: int | None) -> None:
    assert oom_kills(text) == expected


def test_usage_is_parsed_in_both_versions() -> None:
    assert cpu_seconds("2500000000\n") == 2.5
    assert cpu_seconds("usage_usec 1500000\nuser_usec 1\n") == 1.5
    assert cpu_seconds("") is None
    assert megabytes("1048576\n") == 1.0
    assert megabytes("max\n") is None


def test_program_memory_is_parsed_in_both_versions() -> None:
    assert program_memory("cache 7\nrss 5\nrss_huge 1\nshmem 3\n") == (5, 3)
    assert program_memory("anon 5\nfile 7\nkernel 2\nshmem 3\n") == (5, 3)
    assert program_memory("") == (0, 0)
