"""Readings of the host: clocks, memory and disk, with faults."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agentbench.policy.host_trouble import host_troubles
from agentbench.sandbox import host_watch
from agentbench.sandbox.host_watch import Clocks, Ending, HostWatch

pytestmark = [pytest.mark.req("G-14"), pytest.mark.component]

ENDED = Ending("it ended", disk_written_mb=0, files_written=0)
SEC = 1_000_000_000


def test_sound_host_shows_no_trouble(tmp_path: Path) -> None:
    evidence = HostWatch(tmp_path).evidence(ENDED, 10)
    assert host_troubles(evidence) == ()
    assert evidence.memory_at_open_mb
    assert evidence.disk_free_mb


@pytest.mark.parametrize(
    "later, suspended_ms, jump_ms",
    [
        (Clocks(5 * SEC, 5 * SEC, 5 * SEC), 0, 0),
        (Clocks(5 * SEC, 65 * SEC, 65 * SEC), 60_000, 0),
        (Clocks(5 * SEC, 5 * SEC, 3605 * SEC), 0, 3_600_000),
        (Clocks(5 * SEC, 5 * SEC, -15 * SEC), 0, -20_000),
    ],
    ids=["steady", "suspended", "set-forward", "set-back"],
)
def test_clocks_show_suspension_and_jumps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: Clocks, suspended_ms: int, jump_ms: int
) -> None:
    readings = iter([Clocks(0, 0, 0), later])
    monkeypatch.setattr(Clocks, "read", lambda: next(readings))
    evidence = HostWatch(tmp_path).evidence(ENDED, 10)
    assert (evidence.suspended_ms, evidence.clock_jump_ms) == (suspended_ms, jump_ms)
    assert bool(host_troubles(evidence)) == bool(suspended_ms or jump_ms)


def test_host_without_memory_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = HostWatch(tmp_path)
    (tmp_path / "meminfo").write_text("MemTotal:       16000000 kB\nMemAvailable:      20480 kB\n")
    monkeypatch.setattr(host_watch, "MEMORY_FILE", str(tmp_path / "meminfo"))
    assert host_troubles(watch.evidence(ENDED, 10)) == ("only 20 MB of memory available",)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
def test_full_state_folder_is_seen_unless_the_sandbox_filled_it(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m,nr_inodes=300", "tmpfs", small], check=True)
    try:
        watch = HostWatch(small)
        assert host_troubles(watch.evidence(ENDED, 10)) == ()
        (small / "large").write_bytes(bytes(10 << 20))
        assert host_troubles(watch.evidence(ENDED, 10)) == ("only 2 MB of disk free",)
        own = Ending("it ended", disk_written_mb=10, files_written=1)
        assert host_troubles(watch.evidence(own, 10)) == ()
        (small / "large").unlink()
        for number in range(250):
            (small / str(number)).touch()
        (trouble,) = host_troubles(watch.evidence(ENDED, 10))
        assert "inodes free" in trouble
        own = Ending("it ended", disk_written_mb=0, files_written=250)
        assert host_troubles(watch.evidence(own, 10)) == ()
    finally:
        subprocess.run(["umount", small], check=True)


def test_folder_that_is_gone_gives_no_reading(tmp_path: Path) -> None:
    assert host_watch.free_disk(tmp_path / "none") == (None, None)
