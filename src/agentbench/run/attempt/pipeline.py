"""One attempt, from an empty folder to a sealed record.

    open → bind (R, setup, baseline, manifest) → work (the agent) → take Δ → accept (fresh sandbox) → conclude

Whatever happens on the way becomes an event and then a record: our trouble, the task's and the agent's are told apart by
the type of the error, and the verdict is decided from the log alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agentbench.acceptance.grade import grade
from agentbench.acceptance.grading_context import GradingContext
from agentbench.acceptance.validation import BaselineReport
from agentbench.agents.base import Agent
from agentbench.agents.cli.layer import ProgramLayer
from agentbench.contract.identity import Identities
from agentbench.core.errors import BaselineNotFailing, Interrupted, RecordError, TaskError
from agentbench.core.ids import now_iso
from agentbench.core.reasons import TerminationCode
from agentbench.models.ledger import Account
from agentbench.models.metered_model import MeteredModel
from agentbench.policy.termination import category_of
from agentbench.record.attempt_folder import AttemptFolder
from agentbench.record.recovery import ClosedAttempt
from agentbench.run.attempt.agent_phase import work
from agentbench.run.attempt.finalize import conclude
from agentbench.run.attempt.judge import wanted
from agentbench.run.attempt.log_entries import monitored, rationale
from agentbench.run.attempt.manifest import Place
from agentbench.run.attempt.metering import Meter, priced
from agentbench.run.attempt.patch import given_patch
from agentbench.run.attempt.setup_phase import bind, open_attempt
from agentbench.run.config import PROTOCOL_SEED
from agentbench.run.lab import Ground, Lab
from agentbench.run.plan import PlanRow
from agentbench.sandbox.protocol import Phase, SetupStep
from agentbench.tools.rules import Rules, rules_for
from agentbench.trace.blobs import BlobStore
from agentbench.trace.events import (
    Termination,
)
from agentbench.trace.log import EventLog
from agentbench.verdict.terms import Caps, Terms, Weights, terms_of
from agentbench.workspace.diff.extract import Delta

US = 1_000_000
MIB = 1024 * 1024


@dataclass(slots=True)
class Attempt:
    """The state of one attempt while it runs. `make_attempt` is the way to use it."""

    row: PlanRow
    lab: Lab
    folder: AttemptFolder
    log: EventLog
    blobs: BlobStore
    rules: Rules
    terms: Terms
    account: Account
    meter: Meter
    base_seed: int = PROTOCOL_SEED
    report_phase: Callable[[str], None] = lambda _phase: None
    agent: Agent | None = None
    metered_model: MeteredModel | None = None
    program: ProgramLayer | None = None
    ids: Identities | None = None
    place: Place | None = None
    ground: Ground | None = None
    baseline: BaselineReport | None = None
    setup_steps: list[SetupStep] = field(default_factory=list)
    setup_ran: bool = False
    """Setup ran for this attempt: it was not found ready."""
    started_at: str = field(default_factory=now_iso)
    began: float = field(default_factory=time.monotonic)
    agent_sec: float = 0.0

    # --- the pipeline -------------------------------------------------------------------------------------------------

    def carry_out(self) -> None:
        """Every step in order. Raises what ended it short of acceptance."""
        open_attempt(self)
        ground = bind(self)
        given = self.row.configuration.patch
        delta = work(self, ground) if given is None else given_patch(self, ground, given)
        if delta is not None:
            self.accept(ground, delta)
        self.be_judged(delta.patch if delta is not None else b"")

    def accept(self, ground: Ground, delta: Delta) -> None:
        """The agent's sandbox is gone; the verdict is taken where it has never been."""
        self.report_phase("grading")
        grade(delta.patch, self.grading_context(ground), problem=delta.problem)

    def be_judged(self, patch: bytes) -> None:
        """A model's opinion, where the study has a judge. Whatever becomes of it, the verdict is already in the log."""
        judge = self.lab.judge
        if judge is None or not wanted(self.row.task):
            return
        self.report_phase("judge")
        self.log.append(judge.ask(self.row, self.lab.models, patch, self.log.path, self.blobs))

    # --- parts --------------------------------------------------------------------------------------------------------

    def grading_context(self, ground: Ground) -> GradingContext:
        return GradingContext(
            backend=monitored(ground.backend, self.log, self.folder.run_id),
            spec=ground.spec(Phase.ORACLE),
            prepared=ground.prepared,
            loaded=self.row.task,
            contract_id=ground.ids.contract_id,
            cache=self.lab.oracle_cache,
            log=self.log,
            blobs=self.blobs,
        )

    def killed_result(self, error: BaseException) -> None:
        """Write down what kept the attempt from a verdict."""
        code = self.code_of(error)
        self.log.append(
            Termination(
                code=code,
                category=category_of(code),
                # What broke because everything was told to stop is not what stopped it.
                rationale="interrupted" if self.lab.cancelled.is_set() else rationale(error),
                evidence=[self.log.count] if self.log.count else [],
            )
        )

    def code_of(self, error: BaseException) -> TerminationCode:
        # A full disk under the run directory says nothing about the attempt: there it is tried again.
        if self.lab.cancelled.is_set() or isinstance(error, (Interrupted, KeyboardInterrupt, RecordError)):
            return TerminationCode.INTERRUPTED
        if isinstance(error, BaselineNotFailing):
            return TerminationCode.BASELINE_NOT_FAILING
        if isinstance(error, TaskError):
            return TerminationCode.SETUP_FAILED
        return TerminationCode.SANDBOX_ERROR


def make_attempt(
    row: PlanRow,
    lab: Lab,
    folder: AttemptFolder,
    *,
    base_seed: int,
    report_phase: Callable[[str], None] = lambda _phase: None,
) -> tuple[ClosedAttempt, RecordError | None]:
    """Make one attempt in its folder, and nothing outside of it. It always ends in a record, unless that cannot be written.

    With it comes what must be raised once the record is safe: the folder could not be written for a while, so that no other
    attempt could be either. This one is interrupted.

    Raises:
        RecordError: not even the record could be written.
    """
    attempt = _attempt(row, lab, folder, folder.open_log())
    attempt.base_seed = base_seed
    attempt.report_phase = report_phase
    failure = None
    try:
        attempt.carry_out()
    except RecordError as error:
        failure = error
        attempt.killed_result(error)
    except BaseException as error:  # noqa: BLE001 - every attempt ends in a record, whatever went wrong
        attempt.killed_result(error)
    closed = conclude(attempt)
    attempt.meter.settle(closed.record.cost)
    return closed, failure


def close_abandoned(row: PlanRow, lab: Lab, folder: AttemptFolder, *, base_seed: int) -> ClosedAttempt:
    """Give a record to an attempt whose process died: interrupted, with all the evidence it left."""
    attempt = _attempt(row, lab, folder, folder.reopen_log())
    attempt.base_seed = base_seed
    attempt.killed_result(Interrupted("the process that made this attempt died"))
    return conclude(attempt)


def _attempt(row: PlanRow, lab: Lab, folder: AttemptFolder, log: EventLog) -> Attempt:
    task = row.task
    asked = rules_for(task.task, max_steps=row.configuration.max_steps)
    caps = replace(asked.caps, budget=priced(asked.caps.budget, lab.models.prices))
    rules = replace(asked, caps=caps, operator=lab.operator)
    budget = task.task.budget
    account = lab.models.account(row)
    meter = Meter(account, lab.models.prices)
    log.listen(meter)
    return Attempt(
        row=row,
        lab=lab,
        folder=folder,
        log=log,
        blobs=folder.blobs(),
        rules=rules,
        account=account,
        meter=meter,
        terms=terms_of(
            task.task,
            task.checks,
            caps=Caps(
                active_sec=rules.caps.wall_sec,
                tool_calls=rules.caps.budget.tool_calls,
                tokens=budget.tokens,
                usd=budget.usd,
            ),
            weights=None if task.weights is None else Weights.of(task.weights.model_dump()),
        ),
    )
