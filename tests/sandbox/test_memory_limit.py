"""Measuring the memory of a sandbox's programs, and killing the largest."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import cast

import pytest

from agentbench.core.command import Command
from agentbench.sandbox.memory_limit import CHECK_INTERVAL_SEC, LONGEST_INTERVAL_SEC, MemoryGauge
from agentbench.sandbox.protocol import Backend, Prepared
from agentbench.sandbox.served_sandbox import ServedSandbox
from tests.sandbox.conftest import SPEC


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


def test_gauge_is_read_more_often_near_the_limit(tmp_path: Path) -> None:
    usage, limit = tmp_path / "usage", 4 << 30
    gauge = MemoryGauge({"memory": str(usage)}, limit, lambda: 0)
    intervals = []
    for used in (1 << 20, 3 << 30, limit - 1, limit + 1):
        usage.write_text(f"{used}\n")
        gauge.over()
        intervals.append(gauge.interval_sec)
    assert intervals == [LONGEST_INTERVAL_SEC, 1 / 16, CHECK_INTERVAL_SEC, CHECK_INTERVAL_SEC]
    usage.unlink()
    gauge.over()
    assert gauge.interval_sec == CHECK_INTERVAL_SEC


@pytest.mark.parametrize("backend", ["bwrap", "docker"], indirect=True)
def test_old_measurement_kills_no_second_process(
    backend: Backend, prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Freeing memory takes time on a busy machine, and what was measured before that is still on its way."""
    large, measured, freed = threading.Event(), threading.Event(), threading.Event()

    class Gauge:
        """Measures "too much" for this test: at once, or before the process ends and reported after that."""

        def over(self) -> bool:
            match threading.current_thread().name:
                case "late":
                    measured.set()
                    return freed.wait(60)
                case "now":
                    return measured.wait(60)
            return False

        stuck = False
        interval_sec = CHECK_INTERVAL_SEC

        def reset(self) -> None:
            pass

    with backend.open(SPEC, prepared) as opened:
        served = cast("ServedSandbox", opened)
        other = opened.start(Command(line="touch started; read line; echo got $line"))
        opened.run(Command(line="until [ -e started ]; do sleep 0.05; done"))
        hog = opened.start(
            Command(argv=("python3", "-c", "x = b'x' * (60 << 20); print('large', flush=True); input()")),
            on_stdout=lambda _: large.set(),
        )
        assert large.wait(60)
        monkeypatch.setattr(served, "_gauge", Gauge())
        late = threading.Thread(target=served.enforce_memory_limit, name="late")
        late.start()
        now = threading.Thread(target=served.enforce_memory_limit, name="now")
        now.start()
        assert (hog.wait().signal, hog.wait().oom) == (9, True)
        freed.set()
        late.join(60)
        other.write(b"word\n")
        rest = other.wait()
        assert (rest.stdout.kept, rest.oom) == (b"got word\n", False)
