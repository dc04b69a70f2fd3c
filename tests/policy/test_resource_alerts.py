from __future__ import annotations

import pytest

from agentbench.core.reasons import TerminationCode
from agentbench.policy.limits import Limits
from agentbench.policy.recheck import recheck
from agentbench.policy.resource_alerts import ResourceAlerts
from agentbench.policy.termination import category_of
from agentbench.trace.chain import Event
from agentbench.trace.events import Payload, ResourceSample, Termination

pytestmark = [pytest.mark.req("M-01b"), pytest.mark.synthetic]

LIMIT = 64 << 20
SAMPLE = ResourceSample(
    phase="agent", disk_bytes=LIMIT, disk_limit_bytes=LIMIT, oom_kills=2, denied_calls={"mount": 3, "keys": 0}
)


def raised(sample: ResourceSample) -> list[tuple[str, str, dict[str, int]]]:
    return [(alert.monitor, alert.rule, alert.signals) for alert in ResourceAlerts().alerts(7, sample)]


def problems(*payloads: Payload) -> list[str]:
    events = [Event(seq, seq, payload.type, "monitor", payload, "", "") for seq, payload in enumerate(payloads, 1)]
    return recheck(events, Limits())


def test_sample_gives_one_alert_per_problem() -> None:
    assert raised(SAMPLE) == [
        ("resource", "out_of_memory", {"oom_kills": 2}),
        ("resource", "disk_full", {"disk_bytes": LIMIT, "limit_bytes": LIMIT}),
        ("syscall", "mount", {"denied": 3}),
    ]


@pytest.mark.parametrize(
    "sample",
    [
        ResourceSample(phase="agent", disk_bytes=LIMIT // 2, disk_limit_bytes=LIMIT, oom_kills=0),
        ResourceSample(phase="agent", disk_bytes=LIMIT),
    ],
)
def test_ordinary_use_gives_no_alert(sample: ResourceSample) -> None:
    assert raised(sample) == []


def test_problem_is_reported_once_per_phase() -> None:
    alerts = ResourceAlerts()
    assert len(alerts.alerts(1, SAMPLE)) == 3
    assert alerts.alerts(2, SAMPLE.model_copy(update={"oom_kills": 3})) == ()
    assert len(alerts.alerts(3, SAMPLE.model_copy(update={"phase": "oracle"}))) == 3


def test_alerts_that_follow_from_their_evidence_verify() -> None:
    assert problems(SAMPLE, *ResourceAlerts().alerts(1, SAMPLE)) == []


@pytest.mark.parametrize(
    "change",
    [
        {"rule": "keys"},
        {"signals": {"denied": 4}},
        {"severity": "gate"},
        {"evidence": []},
        {"evidence": [2]},
    ],
)
def test_invented_alert_is_reported(change: dict[str, object]) -> None:
    *others, alert = ResourceAlerts().alerts(1, SAMPLE)
    assert (alert.monitor, alert.rule) == ("syscall", "mount")
    first, *_ = problems(SAMPLE, *others, alert.model_copy(update=change))
    assert "does not follow from the event it points to" in first


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_missing_alert_is_reported(missing: int) -> None:
    alerts = list(ResourceAlerts().alerts(1, SAMPLE))
    removed = alerts.pop(missing)
    assert problems(SAMPLE, *alerts) == [
        f"event 1: {removed.monitor} {removed.rule}: the alert that follows from this event is missing"
    ]


def test_alert_of_another_phase_does_not_replace_a_missing_one() -> None:
    graded = SAMPLE.model_copy(update={"phase": "oracle"})
    assert len(problems(SAMPLE, graded, *ResourceAlerts().alerts(1, SAMPLE))) == 3


def test_alert_may_point_to_a_later_sample_of_the_phase() -> None:
    assert problems(SAMPLE, SAMPLE, *ResourceAlerts().alerts(2, SAMPLE)) == []


def test_interruption_may_come_between_a_sample_and_its_alert() -> None:
    code = TerminationCode.INTERRUPTED
    ended = Termination(code=code, category=category_of(code), rationale="interrupted", evidence=[])
    assert problems(SAMPLE, ended) == []
    assert problems(SAMPLE) == []
