"""The state of one attempt that all its phases share."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace

from agentbench.acceptance.checks.broken_check import BrokenDriver
from agentbench.acceptance.grading_context import GradingContext
from agentbench.acceptance.validation import Baseline
from agentbench.contract.identity import identify
from agentbench.core.errors import (
    AgentBenchError,
    AgentFault,
    BaselineNotFailing,
    HarnessError,
    Interrupted,
    RecordError,
    SandboxBroken,
    TaskError,
    TotalBudgetSpent,
)
from agentbench.core.ids import now_iso
from agentbench.core.reasons import Observability, TerminationCode
from agentbench.core.text import printable
from agentbench.execution.attempt.metering import Meter, priced
from agentbench.execution.lab import Lab, PreparedTask
from agentbench.execution.plan import PlanRow
from agentbench.policy.budget import CostCap
from agentbench.policy.costs import Rates
from agentbench.policy.headroom import Headroom, spendable
from agentbench.policy.prices import MICRO
from agentbench.policy.resource_alerts import ResourceAlerts
from agentbench.policy.termination import category_of
from agentbench.record.attempt_folder import AttemptFolder
from agentbench.record.schema import Model
from agentbench.sandbox.protocol import Backend, Phase, SetupStep, Usage
from agentbench.sandbox.usage_sampler import SampledBackend
from agentbench.tools.rules import rules_for
from agentbench.trace.events import Payload, ResourceSample, Termination
from agentbench.trace.log import EventLog, read_events, redacted_payload
from agentbench.verdict.terms import Caps, Weights, terms_of
from agentbench.workspace.secrets.scan import RepositorySecrets

US = 1_000_000
MIB = 1024 * 1024


class Attempt(ABC):
    """One agent on one task, once. Subclasses differ in where the patch comes from."""

    def __init__(
        self,
        row: PlanRow,
        lab: Lab,
        folder: AttemptFolder,
        log: EventLog,
        *,
        base_seed: int,
        report_phase: Callable[[str], None] = lambda _phase: None,
    ) -> None:
        task = row.task
        rules = rules_for(task.task, max_steps=row.configuration.max_steps)
        self.rates = Rates.of(lab.models.prices)
        pause_sec = 0.0 if row.configuration.value("model") is None else lab.models.patience_sec
        caps = replace(rules.caps, budget=priced(rules.caps.budget, self.rates), pause_sec=pause_sec)
        self.row = row
        self.lab = lab
        self.folder = folder
        self.log = log
        self.blobs = folder.blobs()
        self.base_seed = base_seed
        self.report_phase = report_phase
        self.ids = identify(task)
        self.rules = replace(rules, caps=caps, operator=lab.operator)
        self.terms = terms_of(
            task.task,
            task.checks,
            caps=Caps(
                active_sec=caps.wall_sec,
                tool_calls=caps.budget.tool_calls,
                tokens=task.task.budget.tokens,
                usd=task.task.budget.usd,
            ),
            weights=None if task.weights is None else Weights.of(task.weights.model_dump()),
            execution=self.rates.execution,
            needs_briefing=row.configuration.patch is None,
        )
        self.account = lab.models.account(row)
        self.meter = Meter(self.account, self.rates)
        log.listen(self.meter)
        self._texts: list[Payload] = []
        if folder.withholds_text and lab.judge is not None:
            log.listen(self._texts.append)
        self.started_at = now_iso()
        self.start = time.monotonic()
        # Set by the phases. The record holds as much of this as was known when the attempt ended.
        self.config_class: str | None = None
        self.env_digest: str | None = None
        self.setup_steps: list[SetupStep] = []
        self.baseline: Baseline | None = None
        self.headroom: Headroom | None = None
        """The part of the cost cap that is reserved for acceptance; None before the checks ran on the base repository."""
        self.secrets: RepositorySecrets | None = None
        """Secrets of the base repository, which everything in the folder is redacted of; None before it was searched."""
        self.agent_sec = 0.0
        self.resource_alerts = ResourceAlerts()

    @abstractmethod
    def run(self) -> None:
        """Run every phase in order. Raise what prevents a verdict."""

    def redact_repository(self) -> None:
        """Search the base repository for secrets, and redact them from everything that is written from now on.

        A run that keeps the full text redacts only keys and declared secrets.

        Raises:
            SourceError: the base repository is not available.
            WorkspaceError: the harness failed.
        """
        if self.folder.text == "full":
            return
        self.secrets = self.lab.repository_secrets(self.row.task)
        if self.folder.redact is not None:
            self.folder.redact.add_repository_secrets(self.secrets.values)

    def events_for_judge(self) -> list[Payload]:
        """Return the events so far with their text, which is kept in memory if the log does not have it."""
        if self.folder.withholds_text:
            return [redacted_payload(payload, self.folder.redact) for payload in self._texts]
        return [event.payload for event in read_events(self.log.path)]

    @property
    def observability(self) -> Observability | None:
        """How much of the agent the trace shows; None if there is no agent (yet)."""
        return None

    def recorded_observability(self) -> Observability:
        """Return the level for the record; a given patch shows only its effects."""
        return self.observability or Observability.PROCESS

    def model_record(self) -> Model:
        """Describe the model for the record."""
        value = self.row.configuration.value
        sampling = {name: value(name) for name in ("temperature", "top_p", "max_tokens")}
        return Model.model_validate({"name": value("model"), **sampling})

    def sampled(self, backend: Backend) -> SampledBackend:
        """Wrap a backend so that its sandboxes are sampled into the log and labelled with the run."""

        def sample(phase: Phase, usage: Usage, denied_calls: Mapping[str, int]) -> None:
            self.record_usage(phase.value, usage, denied_calls)

        return SampledBackend(backend, sample, labels={"run": self.folder.run_id})

    def reserve_headroom(self, headroom: Headroom) -> None:
        """Reserve a part of the cost cap for acceptance and logging. The agent may spend the rest."""
        self.headroom = headroom
        reserve = headroom.micro(self.rates)
        caps = self.rules.caps
        budget = replace(caps.budget, cost_micro_usd=spendable(caps.budget.cost_micro_usd, reserve))
        cost = CostCap(round(self.row.task.task.budget.usd * MICRO), reserve, self.lab.models.prices.unit)
        self.rules = replace(self.rules, caps=replace(caps, budget=budget, cost=cost))
        self.account.reserve(reserve)

    def record_usage(self, phase: str, usage: Usage, denied_calls: Mapping[str, int]) -> None:
        """Log the resources that a phase used and the system calls it was denied, with an alert for each problem."""
        sample = ResourceSample(
            phase=phase,
            cpu_us=None if usage.cpu_sec is None else int(usage.cpu_sec * US),
            memory_bytes=None if usage.memory_peak_mb is None else int(usage.memory_peak_mb * MIB),
            disk_bytes=None if usage.disk_mb is None else int(usage.disk_mb * MIB),
            processes=usage.processes,
            oom_kills=usage.oom_kills,
            disk_limit_bytes=None if usage.disk_limit_mb is None else int(usage.disk_limit_mb * MIB),
            denied_calls=dict(denied_calls),
        )
        for alert in self.resource_alerts.alerts(self.log.append(sample, "monitor"), sample):
            self.log.append(alert, "monitor")

    def grading_context(self, prepared: PreparedTask) -> GradingContext:
        context = self.lab.grading_context(prepared)
        return replace(context, backend=self.sampled(prepared.backend), log=self.log, blobs=self.blobs)

    def record_failure(self, error: BaseException) -> None:
        """Log the error that ended the attempt before a verdict."""
        code = self._termination_code(error)
        self.log.append(
            Termination(
                code=code,
                category=category_of(code),
                # After a cancellation, errors are only its consequences.
                rationale="interrupted" if self.lab.cancelled.is_set() else _rationale(error),
                evidence=[self.log.count] if self.log.count else [],
            )
        )

    def _termination_code(self, error: BaseException) -> TerminationCode:
        # A full disk under the run directory says nothing about the attempt, so it counts as interrupted and is made again.
        if isinstance(error, TotalBudgetSpent) and not self.lab.cancelled.is_set():
            return TerminationCode.TOTAL_BUDGET
        if self.lab.cancelled.is_set() or isinstance(error, (Interrupted, KeyboardInterrupt, RecordError)):
            return TerminationCode.INTERRUPTED
        if isinstance(error, BaselineNotFailing):
            return TerminationCode.BASELINE_NOT_FAILING
        if isinstance(error, TaskError):
            return TerminationCode.CHECK_BROKEN if isinstance(error, BrokenDriver) else TerminationCode.SETUP_FAILED
        if isinstance(error, SandboxBroken):
            return TerminationCode.SAFETY
        return TerminationCode.SANDBOX_ERROR


def _rationale(error: BaseException) -> str:
    """Describe an error for the log: AgentBench's own by their message, others with their type."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    known = isinstance(error, (HarnessError, TaskError, AgentFault, Interrupted))
    text = (str(error) if known else f"{type(error).__name__}: {error}")[:2000]
    if isinstance(error, AgentBenchError) and error.remedy:
        text += f"; {error.remedy}"
    return printable(text, keep="\n") or type(error).__name__
