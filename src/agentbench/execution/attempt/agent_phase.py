"""The agent phase: run the agent in its sandbox and extract the patch it leaves.

The agent reaches its model and the network only through sockets of the gateway and the recording proxy.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

from agentbench.acceptance.sandbox_loss import attribute_loss
from agentbench.agents.base import Agent, AgentExit, require_multi_turn, run_session
from agentbench.agents.briefing import write_briefing
from agentbench.agents.command import agent_mounts
from agentbench.agents.registry import UnusedModel, make_agent
from agentbench.core.errors import AgentBenchError, SandboxLost, TotalBudgetSpent
from agentbench.core.reasons import Observability, TerminationCode
from agentbench.execution.agent_setup import agent_setup
from agentbench.execution.attempt.base import Attempt
from agentbench.execution.attempt.grading_phase import ask_judge, grade_patch
from agentbench.execution.attempt.kept_workspace import keep_workspace
from agentbench.execution.attempt.monitors import run_monitors
from agentbench.execution.attempt.patch import extract_patch, run_task_scorers
from agentbench.execution.attempt.setup_phase import bind_identity, open_attempt, prepare
from agentbench.execution.lab import PreparedTask
from agentbench.execution.operator import FileOperator
from agentbench.execution.proxy.allow_list import AllowList
from agentbench.execution.proxy.recorder import ProxyLimits, Recorder
from agentbench.execution.proxy.server import Proxy
from agentbench.execution.proxy.server import environment as proxy_environment
from agentbench.models.gateway.server import Gateway
from agentbench.models.metered_model import MeteredModel
from agentbench.policy.applicability import not_applicable
from agentbench.record.schema import Model
from agentbench.sandbox.protocol import Mount, Phase, Sandbox
from agentbench.tools.operator import Operator
from agentbench.tools.session import Session
from agentbench.tools.session_limits import SessionEnded, SessionEnvironment, SessionLog
from agentbench.workspace.diff.extract import ExtractedPatch

_TICK_SEC = 0.05
_CANCEL_SEC = 0.5
_NOT_GRADED = frozenset({TerminationCode.TOTAL_BUDGET, TerminationCode.MODEL_UNAVAILABLE})
"""Terminations that say nothing about the agent: the attempt is repeated, and grading its patch would only cost something."""


class AgentAttempt(Attempt):
    """Run an agent in a sandbox and grade the patch it leaves."""

    agent: Agent | None = None
    metered_model: MeteredModel | None = None

    def run(self) -> None:
        configuration = self.row.configuration
        open_attempt(self)
        spent = self.account.total_spent()
        if spent is not None:
            raise TotalBudgetSpent(f"not started: {spent.message}")
        self.metered_model = self.lab.models.metered_model(self.row, self.account, self.log, self.blobs)
        sampled = self.lab.models.with_sampling(self.row)
        model = None if self.metered_model is None else self.lab.models.chat(self.metered_model, sampled)
        setup = agent_setup(self.row, model)
        self.agent = agent = make_agent(configuration.agent, setup)
        if agent.observability is Observability.TOOLS:
            self.row = sampled
        if self.row.task.task.turns:
            require_multi_turn(agent)
        prepared = prepare(self)
        skipped = not_applicable(agent.observability, prepared.facts.observation_problem)
        self.rules = replace(self.rules, not_applicable=skipped)
        program = self.lab.program(configuration.agent, self.row.task)
        bind_identity(self, prepared, program)
        mounts = (*agent_mounts(setup), *(() if program is None else (program.mount,)))
        ended, patch = run_agent(self, prepared, agent, self.metered_model, mounts)
        run_monitors(self)
        if ended.code in _NOT_GRADED:
            return
        if patch is not None:
            grade_patch(self, prepared, patch)
        ask_judge(self, b"" if patch is None else patch.patch)

    @property
    def observability(self) -> Observability | None:
        return None if self.agent is None else self.agent.observability

    def recorded_observability(self) -> Observability:
        """Return the level of the agent, also if the attempt never started."""
        if self.agent is None:
            # The attempt needs its record, whatever an agent of a plug-in raises.
            with suppress(Exception):
                model = None if self.row.configuration.value("model") is None else UnusedModel()
                return make_agent(self.row.configuration.agent, agent_setup(self.row, model)).observability
        return super().recorded_observability()

    def model_record(self) -> Model:
        fields: dict[str, str | None] = {"prompt_version": getattr(self.agent, "prompt_version", None)}
        identity = None if self.metered_model is None else self.metered_model.identity
        if identity is None:
            # What prevents the model is in the termination.
            with suppress(AgentBenchError):
                identity = self.lab.models.identity(self.row)
        if identity is not None:
            fields |= {"provider": identity.provider, "name": identity.name}
        return super().model_record().model_copy(update=fields)


def run_agent(
    attempt: Attempt,
    prepared: PreparedTask,
    agent: Agent,
    metered_model: MeteredModel | None,
    mounts: tuple[Mount, ...],
) -> tuple[AgentExit, ExtractedPatch | None]:
    """Run the agent, kill everything it started, and extract its patch, which is None if the task has no workspace.

    Raises:
        SandboxBroken: the agent's work ended its sandbox or made it stop answering.
        HarnessError, TaskError, InputError, Interrupted.
    """
    attempt.report_phase("agent")
    acting = threading.Event()
    gateway, proxy = _gateway(attempt, agent, metered_model), _proxy(attempt)
    with (
        _attribute_losses(attempt, acting),
        _open_sandbox(attempt, prepared, mounts, gateway, proxy) as (sandbox, workdir),
    ):
        session = _open_session(attempt, prepared, sandbox, workdir, metered_model)
        start = time.monotonic()
        acting.set()
        try:
            with _close_at_deadline(metered_model, session, attempt.lab.cancelled):
                ended = run_session(agent, session)
            ended = _attribute_exit(ended, metered_model, session)
        finally:
            attempt.agent_sec = max(time.monotonic() - start - session.waited, 0.0)
            if proxy is not None:
                proxy.close()
        stopped = session.is_over()
        sandbox.kill_processes()
        if metered_model is not None:
            # What the agent left must not reach the model: neither its processes nor code that scorers run.
            metered_model.close()
        end = session.ended
        if end is not None and session.is_over() and not stopped:
            # A breaker decided on the response to a request that the program had abandoned.
            ended = AgentExit(end.code, end.rationale, end.evidence, end.rule)
        attempt.log.append(ended.event(), "agent" if ended.code is TerminationCode.AGENT_STOPPED else "harness")
        attempt.record_usage("agent", sandbox.usage(), sandbox.denied_calls())
        return ended, None if attempt.terms.judged_only else _collect_patch(attempt, prepared, sandbox)


@contextmanager
def _open_sandbox(
    attempt: Attempt, prepared: PreparedTask, mounts: tuple[Mount, ...], gateway: Gateway | None, proxy: Proxy | None
) -> Iterator[tuple[Sandbox, str]]:
    """Open the agent's sandbox with the servers that it reaches. Yield it and the folder in which the agent works."""
    spec = prepared.spec(Phase.AGENT, mounts=mounts)
    with ExitStack() as stack:
        if gateway is not None:
            spec = stack.enter_context(gateway).forward.add_to(spec, gateway.environment())
        if proxy is not None:
            spec = stack.enter_context(proxy).forward.add_to(spec, proxy_environment())
        sandbox = stack.enter_context(attempt.sampled(prepared.backend).open(spec, prepared.environment))
        for server in (gateway, proxy):
            if server is not None:
                server.forward.start(sandbox, attempt.rules.caps.wall_sec)
        yield sandbox, spec.workdir


def _collect_patch(attempt: Attempt, prepared: PreparedTask, sandbox: Sandbox) -> ExtractedPatch:
    """Extract the patch, keep the workspace if the task asks for it, and run the task's scorers in it."""
    attempt.report_phase("patch")
    patch = extract_patch(attempt, prepared, sandbox)
    task = attempt.row.task.task
    if task.artifacts.keep_workspace and not attempt.folder.withholds_text:
        keep_workspace(attempt.folder, sandbox.tree(), task.oracle.generated)
    run_task_scorers(attempt, prepared.environment.base_tree, sandbox.tree(), patch, sandbox.run)
    return patch


@contextmanager
def _attribute_losses(attempt: Attempt, acting: threading.Event) -> Iterator[None]:
    """Attribute the loss of the sandbox to the agent once it is `acting`, unless the host had trouble."""
    try:
        yield
    except SandboxLost as lost:
        raise (attribute_loss(lost, "agent", attempt.log) if acting.is_set() else lost) from lost


def _gateway(attempt: Attempt, agent: Agent, metered_model: MeteredModel | None) -> Gateway | None:
    """Create the gateway through which a program in the sandbox reaches its model."""
    if metered_model is None or agent.observability is not Observability.GATEWAY:
        return None
    return Gateway(attempt.lab.state / "gateway" / attempt.folder.attempt_id, metered_model)


def _proxy(attempt: Attempt) -> Proxy | None:
    """Create the recording proxy, if the task gives the agent network access."""
    environment = attempt.row.task.task.environment
    if environment.network_policy != "always":
        return None
    folder = attempt.lab.state / "proxy" / attempt.folder.attempt_id
    limits = ProxyLimits()
    return Proxy(folder, AllowList.of(environment.network_allow), Recorder(attempt.log, attempt.blobs, limits), limits)


def _open_session(
    attempt: Attempt, prepared: PreparedTask, sandbox: Sandbox, workdir: str, metered_model: MeteredModel | None
) -> Session:
    task, rules = attempt.row.task, attempt.rules

    def shared_cap_reached() -> tuple[TerminationCode, str] | None:
        """Return the exhausted cap of the task or the study, if any. Checked before every call."""
        cap = attempt.account.used_up()
        # The attempt's own cap is computed from its log, so that it can be recomputed.
        return None if cap is None or cap.scope == "attempt" else (cap.code, cap.message)

    session = Session(
        write_briefing(task.task, task.statement, task.checks, rules),
        SessionEnvironment(
            sandbox,
            workdir,
            prepared.environment.base_tree,
            _operator(attempt) if rules.operator else None,
            task.task.turns,
            (lambda: None) if metered_model is None else metered_model.close,
            shared_cap_reached,
        ),
        rules,
        SessionLog(attempt.log, attempt.blobs),
        cancelled=attempt.lab.cancelled.is_set,
    )
    if metered_model is not None:
        metered_model.observer = session
    return session


def _operator(attempt: Attempt) -> Operator:
    if attempt.lab.open_operator is not None:
        return attempt.lab.open_operator(attempt.folder)
    return FileOperator(
        run=attempt.folder.run,
        attempt_id=attempt.folder.attempt_id,
        task_id=attempt.row.task.id,
        variant=attempt.row.configuration.variant,
        repeat=attempt.row.repeat,
        yield_worker=attempt.lab.yield_worker,
        redact=attempt.folder.redact,
        cancelled=attempt.lab.cancelled.is_set,
        notify=attempt.lab.on_question,
    )


@contextmanager
def _close_at_deadline(
    metered_model: MeteredModel | None, session: Session, cancelled: threading.Event
) -> Iterator[None]:
    """Abort open requests to the model when the agent's time is over, or the run is interrupted."""
    if metered_model is None:
        yield
        return
    done = threading.Event()

    def watch() -> None:
        # The remaining time can grow: waiting for a person does not count.
        while not done.wait(min(max(session.remaining.wall_sec, _TICK_SEC), _CANCEL_SEC)):
            if session.remaining.wall_sec <= 0 or cancelled.is_set():
                metered_model.close()
                return

    watcher = threading.Thread(target=watch, name="model-deadline", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _attribute_exit(ended: AgentExit, metered_model: MeteredModel | None, session: Session) -> AgentExit:
    """Replace the agent's own account of its end where a cap or the model was the actual cause."""
    refused = None if metered_model is None else metered_model.stopped
    if refused is not None and session.ended is None:
        # The gateway refused requests for lack of budget: that ended the program, whatever it reported itself.
        try:
            session.out_of_budget(refused.code, refused.message, shared=refused.scope != "attempt")
        except SessionEnded as end:
            ended = AgentExit(end.code, end.rationale, end.evidence)
    elif metered_model is not None and metered_model.fault is not None and ended.code is TerminationCode.AGENT_CRASHED:
        # The program failed after its last request had failed: the model's failure, not the agent's crash.
        why = f"{ended.rationale}; its last request to the model failed: {metered_model.fault.message}"
        ended = AgentExit(TerminationCode.LLM_ERROR, why, (*ended.evidence, metered_model.last_event))
    failed = ended.code in {TerminationCode.LLM_ERROR, TerminationCode.AGENT_CRASHED}
    if failed and session.ended is None and session.remaining.wall_sec <= 0:
        # Its last request was aborted at the deadline.
        try:
            session.check_budget()
        except SessionEnded as end:
            return AgentExit(end.code, end.rationale, end.evidence, end.rule)
    return ended
