"""Repeats a run that reached its time limit while the machine was busy."""

from __future__ import annotations

from collections.abc import Callable

from agentbench.acceptance.checks.pytest.run import PytestRun
from agentbench.acceptance.checks.pytest.time_limit import HAD_CPU_SHARE, TimeLimit, machine_was_busy
from agentbench.core.cpu_pressure import cpu_wait_sec


def run_patiently(run: Callable[[TimeLimit], PytestRun], limit: TimeLimit, longer: TimeLimit | None) -> PytestRun:
    """Run with the limit, and once more with the longer one if processes of this machine had to wait for a CPU meanwhile.

    A run that had a CPU for half of the time is not repeated: its own processes may be those that waited.

    Raises:
        BuildFailed, TaskError, PatchInvalid, SandboxError: as `run`.
    """
    waited_before = cpu_wait_sec()
    result = run(limit)
    if longer is None or not result.completed.timed_out:
        return result
    took_sec = result.completed.duration_sec
    had_cpu = result.cpu_sec is not None and result.cpu_sec >= HAD_CPU_SHARE * took_sec
    was_busy = not had_cpu and machine_was_busy(cpu_wait_sec() - waited_before, took_sec)
    return run(longer) if was_busy else result
