"""The agent at work: its sandbox, its session, its way to a model, and what it left behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from agentbench.acceptance.scorers.workspace import Workspace
from agentbench.agents.base import AgentExit, conduct
from agentbench.agents.briefing import write_briefing
from agentbench.agents.command import agent_mounts
from agentbench.core.reasons import Observability, TerminationCode
from agentbench.run.attempt.gateway_access import at_the_wall, blamed, in_time, reachable
from agentbench.run.attempt.log_entries import monitored, resource_sample
from agentbench.run.attempt.patch import score, take_delta
from agentbench.run.attempt.setup_phase import agent_setup
from agentbench.run.lab import Ground
from agentbench.run.operator import FileOperator
from agentbench.run.proxy.allow_list import AllowList
from agentbench.run.proxy.recorder import ProxyLimits, Recorder
from agentbench.run.proxy.server import Proxy
from agentbench.run.proxy.server import environment as proxy_environment
from agentbench.sandbox.protocol import Phase
from agentbench.tools.session import Session, SessionEnded, SessionEnvironment, SessionLog
from agentbench.workspace.diff.extract import Delta

if TYPE_CHECKING:
    from agentbench.run.attempt.pipeline import Attempt


def work(attempt: Attempt, ground: Ground) -> Delta | None:
    """The agent at work, then Δ: taken when everything the agent started is dead. None where there is no workspace."""
    task = attempt.row.task
    assert attempt.agent is not None  # noqa: S101 - open_attempt() made it
    attempt.report_phase("agent")
    with ExitStack() as stack:
        own = () if attempt.program is None else (attempt.program.mount,)
        spec = ground.spec(Phase.AGENT, mounts=(*agent_mounts(agent_setup(attempt)), *own))
        gateway = None
        if attempt.metered_model is not None and attempt.agent.observability is Observability.GATEWAY:
            gateway = stack.enter_context(
                reachable(attempt.metered_model, attempt.lab.state, attempt.folder.attempt_id)
            )
            spec = gateway.forward.add_to(spec, gateway.environment())
        proxy = recording_proxy(attempt)
        if proxy is not None:
            spec = stack.enter_context(proxy).forward.add_to(spec, proxy_environment())
        backend = monitored(ground.backend, attempt.log, attempt.folder.run_id)
        sandbox = stack.enter_context(backend.open(spec, ground.prepared))
        for way in (gateway, proxy):
            if way is not None:
                way.forward.start(sandbox, attempt.rules.caps.wall_sec)
        session = Session(
            write_briefing(task.task, task.statement, task.checks, attempt.rules),
            SessionEnvironment(
                sandbox,
                spec.workdir,
                ground.prepared.base_tree,
                _operator(attempt),
                task.task.turns,
                shared_cap(attempt),
            ),
            attempt.rules,
            SessionLog(attempt.log, attempt.blobs),
            cancelled=attempt.lab.cancelled.is_set,
        )
        begin = time.monotonic()
        try:
            with in_time(attempt.metered_model, session):
                ended = conduct(attempt.agent, session)
            ended = at_the_wall(_within_budget(attempt, ended, session), session)
        finally:
            attempt.agent_sec = time.monotonic() - begin
            if proxy is not None:
                proxy.close()
        attempt.log.append(ended.event(), "agent" if ended.code is TerminationCode.AGENT_STOPPED else "harness")
        sandbox.kill_processes()
        if attempt.metered_model is not None:
            # Scorers run what the agent wrote: it must not ask its model any more.
            attempt.metered_model.close()
        attempt.log.append(resource_sample("agent", sandbox.usage()), "monitor")
        if attempt.terms.judged_only:
            return None
        attempt.report_phase("patch")
        delta = take_delta(attempt, ground, sandbox)
        score(attempt, Workspace(ground.prepared.base_tree, sandbox.tree(), delta, sandbox.run))
        return delta


def shared_cap(attempt: Attempt) -> Callable[[], tuple[TerminationCode, str] | None]:
    """Asked before every call: whether the task or the study has spent its cap, whoever of its attempts that was."""

    def beyond() -> tuple[TerminationCode, str] | None:
        full = attempt.account.used_up()
        # The attempt's own cap is held by a fold over its log, which anybody can make again.
        return None if full is None or full.scope == "run" else (full.code, full.message)

    return beyond


def recording_proxy(attempt: Attempt) -> Proxy | None:
    """The way to the network, where the contract has one for the agent."""
    environment = attempt.row.task.task.environment
    if environment.network_policy != "always":
        return None
    folder = attempt.lab.state / "proxy" / attempt.folder.attempt_id
    limits = ProxyLimits()
    return Proxy(folder, AllowList.of(environment.network_allow), Recorder(attempt.log, attempt.blobs, limits), limits)


def _operator(attempt: Attempt) -> FileOperator | None:
    """Who can be asked while this attempt waits."""
    if not attempt.rules.operator:
        return None
    return FileOperator(
        run=attempt.folder.run,
        attempt_id=attempt.folder.attempt_id,
        task_id=attempt.row.task.id,
        variant=attempt.row.configuration.variant,
        repeat=attempt.row.repeat,
        yield_worker=attempt.lab.yield_worker,
        cancelled=attempt.lab.cancelled.is_set,
    )


def _within_budget(attempt: Attempt, ended: AgentExit, session: Session) -> AgentExit:
    """A program whose requests were refused for want of budget was ended by that, whatever it said itself."""
    refused = attempt.metered_model.stopped if attempt.metered_model is not None else None
    if refused is None or session.ended is not None:
        return blamed(ended, attempt.metered_model)
    try:
        session.out_of_budget(refused.code, refused.message, shared=refused.scope != "run")
    except SessionEnded as end:
        return AgentExit(end.code, end.rationale, end.evidence)
