from types import SimpleNamespace

from agentbench_slowest import SHOWN, slowest


def attempt(number: int) -> SimpleNamespace:
    return SimpleNamespace(
        task_id=f"task-{number}", repeat=1, duration_sec=float(number), usage=SimpleNamespace(wall_sec=0.5)
    )


def test_slowest_attempts_come_first() -> None:
    lines = slowest(SimpleNamespace(attempts=[attempt(number) for number in range(10)])).splitlines()[4:]
    assert len(lines) == SHOWN
    assert lines[0] == "| `task-9` | 1 | 9.0 s | 0.5 s |"
