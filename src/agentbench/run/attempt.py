"""One attempt, from an empty folder to a sealed record.

    open → bind (R, setup, baseline, manifest) → work (the agent) → take Δ → accept (fresh sandbox) → conclude

Whatever happens on the way becomes an event and then a record: our trouble, the task's and the agent's are told apart by
the type of the error, and the verdict is decided from the log alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from agentbench.agents.base import Agent, AgentExit, AgentSetup, conduct
from agentbench.agents.briefing import write_briefing
from agentbench.agents.cli.layer import ProgramLayer
from agentbench.agents.command import agent_mounts
from agentbench.agents.registry import make_agent
from agentbench.contract.identity import Identities, identify
from agentbench.contract.scorers import scorer_spec
from agentbench.core.errors import BaselineNotFailing, HarnessError, Interrupted, PatchInvalid, RecordError, TaskError
from agentbench.core.ids import new_ulid, now_iso
from agentbench.core.reasons import Observability, TerminationCode
from agentbench.grading.terms import Caps, Terms, terms_of
from agentbench.models.desk import Desk
from agentbench.oracle.acceptance import grade
from agentbench.oracle.bench import GradingBench
from agentbench.oracle.scorers.engine import run_scorers
from agentbench.oracle.scorers.workspace import Workspace
from agentbench.oracle.validation import BaselineReport, baseline
from agentbench.policy.termination import category_of
from agentbench.record.folder import FINAL_PATCH, AttemptFolder
from agentbench.record.rundir import RunDirectory
from agentbench.record.schema import AttemptRecord
from agentbench.run.bundle import pack, write_bundle
from agentbench.run.conclusion import conclude
from agentbench.run.config import PROTOCOL_SEED
from agentbench.run.judging import wanted
from agentbench.run.lab import Ground, Lab, config_class, held_limits
from agentbench.run.manifesting import Names, Place, manifest_of
from agentbench.run.noting import monitored, note_step, rationale, resource_sample
from agentbench.run.operator import FileOperator
from agentbench.run.plan import PlanRow
from agentbench.run.reach import at_the_wall, blamed, in_time, open_way, reachable, with_gateway
from agentbench.run.version import harness_version
from agentbench.sandbox.protocol import Phase, Sandbox, SetupStep
from agentbench.tools.ending import SessionEnded
from agentbench.tools.rules import Rules, rules_for
from agentbench.tools.session import Record, Session, Workplace
from agentbench.trace.blobs import BlobStore
from agentbench.trace.events import (
    AttemptOpened,
    IdentityBound,
    TaskStarted,
    Termination,
)
from agentbench.trace.log import EventLog
from agentbench.workspace.application import apply
from agentbench.workspace.delta import Delta, extract
from agentbench.workspace.evidence import delta_event, refusals
from agentbench.workspace.patch import parse
from agentbench.workspace.patched import PatchedTree

US = 1_000_000
MIB = 1024 * 1024


@dataclass(slots=True)
class Attempt:
    """The state of one attempt while it runs. `run_attempt` is the way to use it."""

    row: PlanRow
    lab: Lab
    run: RunDirectory
    folder: AttemptFolder
    log: EventLog
    blobs: BlobStore
    rules: Rules
    terms: Terms
    base_seed: int = PROTOCOL_SEED
    tell: Callable[[str], None] = lambda _phase: None
    agent: Agent | None = None
    desk: Desk | None = None
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
        self.open()
        ground = self.bind()
        given = self.row.configuration.patch
        delta = self.work(ground) if given is None else self.given_patch(ground, given)
        self.accept(ground, delta)
        self.be_judged(delta.patch)

    def open(self) -> None:
        task = self.row.task
        self.ids = identify(task)
        backend = self.lab.backend(task)
        config = config_class(task, backend.name, held_limits(backend, task))
        self.place = Place(self.ids, backend.name, config)
        self.folder.write_manifest(manifest_of(self.row, self.names(), self.place))
        self.log.append(
            AttemptOpened(
                attempt_id=self.folder.attempt_id,
                run_id=self.run.run_id,
                study_id=self.run.study_id,
                task_id=task.id,
                contract_id=self.ids.contract_id,
                task_digest=self.ids.task_digest,
                harness_version=harness_version(),
                config_class=config,
                nonce=new_ulid(),
                supersedes=self.folder.supersedes,
            )
        )
        self.log.append(
            TaskStarted(
                task_id=task.id,
                suite=task.task.suite,
                variant=self.row.configuration.variant,
                agent=self.row.configuration.agent,
                repeat=self.row.repeat,
                seed=self.row.seed,
                started_at=self.started_at,
            )
        )
        if self.row.configuration.patch is None:
            self.desk = self.lab.models.desk(self.row, self.log, self.blobs)
            self.agent = make_agent(self.row.configuration.agent, self.agent_setup())

    def agent_setup(self) -> AgentSetup:
        task, configuration = self.row.task, self.row.configuration
        script = configuration.script
        if script is not None and script.is_dir():
            script = script / f"{task.id}.yaml"
        return AgentSetup(
            task_id=task.id,
            task_folder=task.folder,
            reference=task.reference_file if configuration.agent in {"reference", "oracle"} else None,
            command=configuration.agent_command,
            files=configuration.agent_files,
            script=script,
            options=configuration.options,
            model=None if self.desk is None else self.lab.models.chat(self.desk, self.row),
            prompt=configuration.prompt,
            test_command=task.task.hints.test_command,
        )

    def bind(self) -> Ground:
        """R, its environment and its baseline, all identified and written down before the agent acts."""
        self.tell("setup")
        ground = self.lab.ground(self.row.task, self.setup_step)
        self.ground = ground
        if not self.setup_steps:
            self.setup_steps += ground.prepared.steps
            for index, step in enumerate(ground.prepared.steps):
                note_step(self.log, self.blobs, index, step, cached=True)
        assert self.place is not None  # noqa: S101 - open() made it
        self.tell("baseline")
        self.baseline = baseline(self.bench(ground))
        if self.row.configuration.patch is None:
            self.program = self.lab.program(self.row.configuration.agent, self.row.task)
        manifest = manifest_of(self.row, self.names(), self.place, ground, self.program)
        sha256 = self.folder.write_manifest(manifest)
        self.log.append(
            IdentityBound(
                snapshot=ground.snapshot.digest,
                source=dict(ground.snapshot.source),
                base_tree=ground.base_digest,
                env_digest=ground.prepared.digest,
                backend=ground.backend.name,
                image=ground.prepared.details.get("image_digest"),
                manifest_sha256=sha256,
            )
        )
        write_bundle(self.folder.path, pack(self.row.task, ground.ids, ground.snapshot.folder))
        self.require_failing(self.baseline)
        problems = manifest.problems()
        if problems:
            raise HarnessError(f"the manifest does not hold: {'; '.join(problems)}")
        self.log.sync()
        return ground

    def require_failing(self, found: BaselineReport) -> None:
        if not found.failed_as_expected:
            raise BaselineNotFailing(f"the task is solved before anybody works on it: {found.why}")

    def work(self, ground: Ground) -> Delta:
        """The agent at work, then Δ: taken when everything the agent started is dead."""
        task = self.row.task
        assert self.agent is not None  # noqa: S101 - open() made it
        self.tell("agent")
        with ExitStack() as stack:
            own = () if self.program is None else (self.program.mount,)
            spec = ground.spec(Phase.AGENT, mounts=(*agent_mounts(self.agent_setup()), *own))
            gateway = None
            if self.desk is not None and self.agent.observability is Observability.GATEWAY:
                gateway = stack.enter_context(reachable(self.desk, self.lab.state, self.folder.attempt_id))
                spec = with_gateway(spec, gateway)
            sandbox = stack.enter_context(monitored(ground.backend, self.log).open(spec, ground.prepared))
            if gateway is not None:
                open_way(sandbox, gateway, self.rules.caps.wall_sec)
            session = Session(
                write_briefing(task.task, task.statement, task.checks, self.rules),
                Workplace(sandbox, spec.workdir, ground.prepared.base_tree, self.operator()),
                self.rules,
                Record(self.log, self.blobs),
                cancelled=self.lab.cancelled.is_set,
            )
            begin = time.monotonic()
            try:
                with in_time(self.desk, session):
                    ended = conduct(self.agent, session)
                ended = at_the_wall(self.within_budget(ended, session), session)
            finally:
                self.agent_sec = time.monotonic() - begin
            self.log.append(ended.event(), "agent" if ended.code is TerminationCode.AGENT_STOPPED else "harness")
            sandbox.kill_processes()
            if self.desk is not None:
                # Scorers run what the agent wrote: it must not ask its model any more.
                self.desk.close()
            self.log.append(resource_sample("agent", sandbox.usage()), "monitor")
            self.tell("patch")
            delta = self.take_delta(ground, sandbox)
            self.score(Workspace(ground.prepared.base_tree, sandbox.tree(), delta, sandbox.run))
            return delta

    def operator(self) -> FileOperator | None:
        """Who can be asked while this attempt waits."""
        if not self.rules.operator:
            return None
        return FileOperator(
            run=self.run.path,
            attempt_id=self.folder.attempt_id,
            task_id=self.row.task.id,
            variant=self.row.configuration.variant,
            repeat=self.row.repeat,
            aside=self.lab.aside,
            cancelled=self.lab.cancelled.is_set,
        )

    def within_budget(self, ended: AgentExit, session: Session) -> AgentExit:
        """A program whose requests were refused for want of budget was ended by that, whatever it said itself."""
        refused = self.desk.stopped if self.desk is not None else None
        if refused is None or session.ended is not None:
            return blamed(ended, self.desk)
        try:
            session.out_of_budget(refused.code, refused.message, shared=refused.scope != "run")
        except SessionEnded as end:
            return AgentExit(end.code, end.rationale, end.evidence)

    def score(self, workspace: Workspace) -> None:
        """The task's scorers on the workspace as the agent left it: shown beside the gates, never part of them."""
        specs = [scorer_spec(scorer) for scorer in self.row.task.scorers]
        if specs:
            self.tell("scorers")
        for result in run_scorers(specs, workspace):
            self.log.append(result)

    def take_delta(self, ground: Ground, sandbox: Sandbox) -> Delta:
        """Δ as the text that will be graded, recorded with the digest of every file."""
        delta = extract(ground.prepared.base_tree, sandbox.tree(), generated=self.row.task.task.oracle.generated)
        return self.record_delta(delta)

    def record_delta(self, delta: Delta) -> Delta:
        self.folder.write_exact(FINAL_PATCH, delta.patch)
        self.log.append(delta_event(delta))
        for finding in refusals(delta):
            self.log.append(finding, "monitor")
        self.log.sync()
        return delta

    def given_patch(self, ground: Ground, patch: bytes) -> Delta:
        """Δ made elsewhere: brought into the form in which every Δ is recorded, if it applies at all."""
        self.log.append(
            Termination(
                code=TerminationCode.AGENT_STOPPED, category=None, rationale="a patch made elsewhere", evidence=[]
            )
        )
        base = ground.prepared.base_tree
        try:
            after = PatchedTree(base, apply(parse(patch), base))
        except PatchInvalid as fault:
            return self.record_delta(Delta(patch, (), (), (), 0, 0, fault.message))
        delta = self.record_delta(extract(base, after, generated=self.row.task.task.oracle.generated))
        self.score(Workspace(base, after, delta, None))
        return delta

    def accept(self, ground: Ground, delta: Delta) -> None:
        """The agent's sandbox is gone; the verdict is taken where it has never been."""
        self.tell("grading")
        grade(delta.patch, self.bench(ground), problem=delta.problem)

    def be_judged(self, patch: bytes) -> None:
        """A model's opinion, where the study has a judge. Whatever becomes of it, the verdict is already in the log."""
        judge = self.lab.judge
        if judge is None or not wanted(self.row.task):
            return
        self.tell("judge")
        self.log.append(judge.ask(self.row, self.lab.models, patch, self.log.path, self.blobs))

    # --- parts --------------------------------------------------------------------------------------------------------

    def bench(self, ground: Ground) -> GradingBench:
        return GradingBench(
            backend=monitored(ground.backend, self.log),
            spec=ground.spec(Phase.ORACLE),
            prepared=ground.prepared,
            loaded=self.row.task,
            contract_id=ground.ids.contract_id,
            cache=self.lab.oracle_cache,
            log=self.log,
            blobs=self.blobs,
        )

    def names(self) -> Names:
        return Names(
            harness_version(),
            self.run.study_id,
            self.run.run_id,
            self.folder.attempt_id,
            self.base_seed,
            self.terms,
            self.rules,
        )

    def setup_step(self, step: SetupStep) -> None:
        note_step(self.log, self.blobs, len(self.setup_steps), step, cached=False)
        self.setup_steps.append(step)
        self.setup_ran = True

    def ended_by(self, error: BaseException) -> None:
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


def run_attempt(
    row: PlanRow,
    lab: Lab,
    run: RunDirectory,
    *,
    base_seed: int,
    supersedes: str | None = None,
    tell: Callable[[str], None] = lambda _phase: None,
) -> AttemptRecord:
    """Make one attempt. It always ends in a record, unless the record itself cannot be written.

    Raises:
        RecordError: the run directory cannot be written: no other attempt could be either. This one is interrupted.
    """
    folder = run.begin(row.task.id, row.repeat, supersedes=supersedes)
    attempt = _attempt(row, lab, run, folder, folder.open_log())
    attempt.base_seed = base_seed
    attempt.tell = tell
    try:
        attempt.carry_out()
    except RecordError as error:
        attempt.ended_by(error)
        conclude(attempt)
        raise
    except BaseException as error:  # noqa: BLE001 - every attempt ends in a record, whatever went wrong
        attempt.ended_by(error)
    return conclude(attempt)


def end_abandoned(row: PlanRow, lab: Lab, run: RunDirectory, folder: AttemptFolder, *, base_seed: int) -> AttemptRecord:
    """Give a record to an attempt whose process died: interrupted, with all the evidence it left."""
    attempt = _attempt(row, lab, run, folder, folder.reopen_log())
    attempt.base_seed = base_seed
    attempt.ended_by(Interrupted("the process that made this attempt died"))
    return conclude(attempt)


def _attempt(row: PlanRow, lab: Lab, run: RunDirectory, folder: AttemptFolder, log: EventLog) -> Attempt:
    task = row.task
    rules = replace(rules_for(task.task, max_steps=row.configuration.max_steps), operator=lab.operator)
    budget = task.task.budget
    return Attempt(
        row=row,
        lab=lab,
        run=run,
        folder=folder,
        log=log,
        blobs=folder.blobs(),
        rules=rules,
        terms=terms_of(
            task.task,
            task.checks,
            caps=Caps(
                active_sec=rules.caps.wall_sec,
                tool_calls=rules.caps.budget.tool_calls,
                tokens=budget.tokens,
                usd=budget.usd,
            ),
        ),
    )
