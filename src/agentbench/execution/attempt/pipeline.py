"""One attempt, from an empty folder to a sealed record.

    open → set up (snapshot, setup, baseline, manifest) → run the agent → extract the patch → grade → judge → finalize

Every failure becomes an event and then a record. The type of the error tells harness errors, task errors and agent failures
apart, and the verdict is decided from the log alone.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from agentbench.core.errors import AgentBenchError, Interrupted, RecordError
from agentbench.core.ids import now_iso
from agentbench.execution.attempt.base import US, Attempt
from agentbench.execution.attempt.evidence_files import write_evidence
from agentbench.execution.attempt.grading_phase import ask_judge, grade_patch
from agentbench.execution.attempt.patch import apply_given_patch
from agentbench.execution.attempt.record import build_record
from agentbench.execution.attempt.setup_phase import bind_identity, open_attempt, prepare
from agentbench.execution.lab import Lab
from agentbench.execution.plan import PlanRow
from agentbench.policy.costs import EVIDENCE, Costs, itemise, meter, overrun_alert
from agentbench.policy.prices import MICRO
from agentbench.record.attempt_folder import AttemptFolder
from agentbench.record.sealing import ClosedAttempt, close_attempt
from agentbench.trace.events import ResourceSample, TaskFinished
from agentbench.trace.log import read_events
from agentbench.verdict.decide import decide
from agentbench.verdict.facts import collect_facts


class PatchAttempt(Attempt):
    """Grade a patch that was made elsewhere."""

    def run(self) -> None:
        open_attempt(self)
        prepared = prepare(self)
        bind_identity(self, prepared)
        patch = apply_given_patch(self, prepared)
        grade_patch(self, prepared, patch)
        ask_judge(self, patch.patch)


def make_attempt(
    row: PlanRow,
    lab: Lab,
    folder: AttemptFolder,
    *,
    base_seed: int,
    report_phase: Callable[[str], None] = lambda _phase: None,
) -> tuple[ClosedAttempt, RecordError | None]:
    """Make one attempt. Write only to its folder, and always end with a record unless that cannot be written.

    The error that is returned must be raised once the record is safe: for a while the folder could not be written, so other
    attempts cannot be recorded either. This attempt counts as interrupted.

    Raises:
        RecordError: not even the record could be written.
    """
    folder = folder.with_own_redactor()
    attempt = _kind(row)(row, lab, folder, folder.open_log(), base_seed=base_seed, report_phase=report_phase)
    failure = None
    try:
        attempt.run()
    except RecordError as error:
        failure = error
        attempt.record_failure(error)
    except BaseException as error:  # noqa: BLE001 - every attempt ends in a record, whatever went wrong
        attempt.record_failure(error)
    else:
        if lab.cancelled.is_set():
            # Stopping also breaks sandboxes and requests, so nothing that was decided meanwhile may count.
            attempt.record_failure(Interrupted("interrupted"))
    closed = finalize(attempt)
    attempt.meter.settle(closed.record.cost)
    return closed, failure


def close_abandoned(
    row: PlanRow, lab: Lab, folder: AttemptFolder, *, base_seed: int, cause: AgentBenchError | None = None
) -> ClosedAttempt:
    """Record an attempt whose process died, with all the evidence it left: by default as interrupted."""
    folder = folder.with_own_redactor()
    attempt = _kind(row)(row, lab, folder, folder.reopen_log(), base_seed=base_seed)
    with contextlib.suppress(AgentBenchError):
        attempt.redact_repository()
    attempt.record_failure(cause or Interrupted("the process that made this attempt died"))
    return finalize(attempt)


def _kind(row: PlanRow) -> type[Attempt]:
    if row.configuration.patch is not None:
        return PatchAttempt
    from agentbench.execution.attempt.agent_phase import AgentAttempt  # noqa: PLC0415 - agents and tools import slowly

    return AgentAttempt


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
