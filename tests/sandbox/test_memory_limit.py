"""Measuring the memory of a sandbox's programs."""

from __future__ import annotations

from pathlib import Path

from agentbench.sandbox.memory_limit import MemoryGauge


def test_gauge_needs_two_readings_to_blame_shared_memory(tmp_path: Path) -> None:
    files = {"memory": str(tmp_path / "usage"), "memory_stat": str(tmp_path / "stat")}
    gauge = MemoryGauge(files, 100, lambda: 60)
    assert not gauge.over()  # nothing to read
    for usage, stat, verdicts in (
        (90, "anon 90\nshmem 0\n", [False, False]),
        (170, "anon 90\nshmem 65\n", [False, False]),  # 60 of the shared bytes are files
        (170, "anon 90\nshmem 75\n", [False, True]),  # a number that changed between two reads would not be over twice
        (170, "anon 101\nshmem 0\n", [True, True]),
    ):
        (tmp_path / "usage").write_text(f"{usage}\n")
        (tmp_path / "stat").write_text(stat)
        assert [gauge.over(), gauge.over()] == verdicts
