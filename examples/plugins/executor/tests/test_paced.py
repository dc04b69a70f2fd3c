import time
from functools import partial

import pytest
from agentbench_paced import paced


def test_attempts_start_at_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    monkeypatch.setenv("AGENTBENCH_PACE_SEC", "3")
    made: list[int] = []
    paced([partial(made.append, number) for number in range(3)], 2)
    assert sorted(made) == [0, 1, 2]
    assert waited == [3.0, 3.0]
