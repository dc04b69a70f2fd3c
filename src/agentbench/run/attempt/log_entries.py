"""What an attempt writes into its log and record about things that are not its own: setup, resources, errors, baselines."""

from __future__ import annotations

from agentbench.acceptance.validation import BaselineReport
from agentbench.core.errors import AgentFault, HarnessError, Interrupted, TaskError
from agentbench.core.text import printable
from agentbench.record.schema import BaselineValidation
from agentbench.sandbox.protocol import Backend, Phase, SetupStep, Usage
from agentbench.sandbox.usage_sampler import SampledBackend
from agentbench.trace.blobs import BlobStore, excerpt
from agentbench.trace.events import ResourceSample, SetupCommandFinished, SetupCommandStarted
from agentbench.trace.log import EventLog

US = 1_000_000
MIB = 1024 * 1024


def note_step(log: EventLog, blobs: BlobStore, index: int, step: SetupStep, *, cached: bool) -> None:
    """One setup command: when it was found ready, what came of it when it ran."""
    log.append(SetupCommandStarted(index=index, command=step.command, capture=step.capture, cached=cached))
    log.append(
        SetupCommandFinished(
            index=index,
            exit_code=step.exit_code,
            timed_out=step.timed_out,
            duration_us=int(step.duration_sec * US),
            stdout=excerpt(step.stdout, store=blobs),
            stderr=excerpt(step.stderr, store=blobs),
            cached=cached,
        )
    )


def rationale(error: BaseException) -> str:
    """An error in words for a log: ours as they are, others with their type."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    known = isinstance(error, (HarnessError, TaskError, AgentFault, Interrupted))
    text = str(error) if known else f"{type(error).__name__}: {error}"
    return printable(text[:2000], keep="\n") or type(error).__name__


def baseline_record(found: BaselineReport | None) -> BaselineValidation:
    if found is None:
        return BaselineValidation()
    return BaselineValidation(
        attempted=True, failed_as_expected=found.failed_as_expected, exit_code=found.exit_code, cached=found.cached
    )


def monitored(backend: Backend, log: EventLog, run_id: str) -> SampledBackend:
    """A backend whose sandboxes are sampled into a log for as long as they live, and carry the name of their run."""

    def note(phase: Phase, usage: Usage) -> None:
        log.append(resource_sample(phase.value, usage), "monitor")

    return SampledBackend(backend, note, labels={"run": run_id})


def resource_sample(phase: str, usage: Usage) -> ResourceSample:
    """What a phase used, in the log's integers."""
    return ResourceSample(
        phase=phase,
        cpu_us=None if usage.cpu_sec is None else int(usage.cpu_sec * US),
        memory_bytes=None if usage.memory_peak_mb is None else int(usage.memory_peak_mb * MIB),
        disk_bytes=None if usage.disk_mb is None else int(usage.disk_mb * MIB),
        processes=usage.processes,
    )
