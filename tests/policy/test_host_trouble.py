"""Evidence that excuses the loss of a sandbox, and evidence that code inside could have produced itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentbench.core.host_evidence import HostEvidence
from agentbench.policy.host_trouble import describe_host, host_troubles

pytestmark = [pytest.mark.req("G-14"), pytest.mark.synthetic]

SOUND = HostEvidence(
    memory_at_open_mb=8000,
    memory_available_mb=7000,
    memory_peak_mb=100,
    disk_free_mb=50_000,
    disk_written_mb=0,
    inodes_free=1_000_000,
    files_written=0,
)


def test_sound_host_has_no_trouble() -> None:
    assert host_troubles(SOUND) == ()
    assert host_troubles(HostEvidence()) == ()
    assert describe_host(SOUND) == (
        "memory 7,000 MB available, disk 50,000 MB free, its owner process is running, clocks steady"
    )


@pytest.mark.parametrize(
    "change, words",
    [
        ({"manager": "gone"}, "is gone"),
        ({"manager": "stopped"}, "is stopped"),
        ({"ended_from_outside": True}, "ended from outside"),
        ({"host_oom_kills": 1}, "host was out of memory"),
        ({"memory_available_mb": 20}, "only 20 MB of memory"),
        ({"disk_free_mb": 0}, "only 0 MB of disk"),
        ({"inodes_free": 3}, "only 3 inodes"),
        ({"suspended_ms": 3_600_000}, "suspended for 3600 s"),
        ({"clock_jump_ms": -60_000}, "set by -60 s"),
        ({"clock_jump_ms": 60_000}, "set by +60 s"),
    ],
)
def test_trouble_of_the_host_is_named(change: dict[str, object], words: str) -> None:
    (trouble,) = host_troubles(replace(SOUND, **change))  # type: ignore[arg-type]
    assert words in trouble


@pytest.mark.parametrize(
    "change",
    [
        {"host_oom_kills": 3, "memory_peak_mb": 5000},
        {"host_oom_kills": 3, "memory_peak_mb": None},
        {"memory_available_mb": 20, "memory_peak_mb": 7900},
        {"memory_available_mb": 20, "memory_peak_mb": None},
        {"disk_free_mb": 0, "disk_written_mb": 4000},
        {"disk_free_mb": 0, "disk_written_mb": None},
        {"inodes_free": 0, "files_written": 20_000},
        {"inodes_free": 0, "files_written": None},
        {"suspended_ms": 3, "clock_jump_ms": -900},
    ],
)
def test_what_code_inside_can_cause_is_no_trouble_of_the_host(change: dict[str, object]) -> None:
    assert host_troubles(replace(SOUND, **change)) == ()  # type: ignore[arg-type]
