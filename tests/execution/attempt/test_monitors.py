from __future__ import annotations

import pytest

from agentbench.execution.attempt.monitors import BUILT_IN, ERROR, MAX_ALERTS, OTHER_MONITORS, Alert, _alerts
from agentbench.policy.monitors import MONITORS
from agentbench.policy.recheck import BUDGET
from agentbench.policy.resource_alerts import OBSERVING_MONITORS
from agentbench.policy.rule_engine import ENGINE_MONITORS

pytestmark = pytest.mark.component


def test_names_of_monitors_that_are_recomputed_are_reserved() -> None:
    assert set(BUILT_IN) == MONITORS | ENGINE_MONITORS | OBSERVING_MONITORS | {BUDGET}


def test_too_many_alerts_are_cut_and_reported() -> None:
    OTHER_MONITORS.register("chatty", lambda _events: [Alert("word", "said")] * (MAX_ALERTS + 1))
    alerts = _alerts("chatty", [])
    assert [alert.rule for alert in alerts] == ["word"] * MAX_ALERTS + [ERROR]
    assert alerts[-1].detail == f"the monitor returned {MAX_ALERTS + 1} alerts; the first {MAX_ALERTS} are recorded"


def test_other_objects_than_alerts_are_reported() -> None:
    OTHER_MONITORS.register("odd", lambda _events: ["alert"])  # type: ignore[arg-type]
    assert [alert.rule for alert in _alerts("odd", [])] == [ERROR]
