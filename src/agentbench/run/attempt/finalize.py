"""Finalize an attempt: decide the verdict from its log, write the record, and seal both."""

from __future__ import annotations

import time

from agentbench.core.ids import now_iso
from agentbench.policy.costs import EVIDENCE, Costs, itemise, meter, overrun_alert
from agentbench.policy.prices import MICRO
from agentbench.record.sealing import ClosedAttempt, close_attempt
from agentbench.run.attempt.base import US, Attempt
from agentbench.run.attempt.evidence_files import write_evidence
from agentbench.run.attempt.record import build_record
from agentbench.trace.events import ResourceSample, TaskFinished
from agentbench.trace.log import read_events
from agentbench.verdict.decide import decide
from agentbench.verdict.facts import collect_facts


def finalize(attempt: Attempt) -> ClosedAttempt:
    """Decide from the events as they were written, build the record, and close the attempt.

    Raises:
        RecordError: the record cannot be written.
    """
    paths = write_evidence(attempt.folder, attempt.row.task, attempt.log.path, attempt.setup_steps, attempt.baseline)
    costs = _meter_costs(attempt)
    facts = collect_facts(read_events(attempt.log.path))
    verdict = decide(facts, attempt.terms)
    attempt.log.append(verdict.event())
    finished = TaskFinished(
        ended_at=now_iso(),
        passed=verdict.passed,
        reason=verdict.reason,
        duration_us=int((time.monotonic() - attempt.start) * US),
    )
    attempt.log.append(finished)
    return close_attempt(attempt.folder, attempt.log, build_record(attempt, facts, verdict, finished, paths, costs))


def _meter_costs(attempt: Attempt) -> Costs:
    """Log the size of the evidence, compute the cost from the log, and report a cost above the cap."""
    attempt.log.append(ResourceSample(phase=EVIDENCE, disk_bytes=attempt.folder.evidence_bytes()), "monitor")
    events = list(read_events(attempt.log.path))
    costs = itemise(meter(events), attempt.rates)
    cap_micro = round(attempt.row.task.task.budget.usd * MICRO)
    overrun = overrun_alert(events, costs, cap_micro, attempt.lab.models.prices.unit)
    if overrun is not None:
        attempt.log.append(overrun, "monitor")
    return costs
