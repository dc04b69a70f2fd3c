"""How a program in a sandbox reaches the model of its attempt: a socket of the gateway, and a forwarder on loopback inside."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentbench.agents.base import AgentExit
from agentbench.core.reasons import TerminationCode
from agentbench.models.gateway.server import Gateway
from agentbench.models.metered_model import MeteredModel
from agentbench.tools.session import Session, SessionEnded

_TICK_SEC = 0.05


@contextmanager
def reachable(metered_model: MeteredModel, state: Path, attempt_id: str) -> Iterator[Gateway]:
    """A gateway for one attempt, in a folder that is nobody else's.

    Raises:
        SandboxError: ours.
    """
    with Gateway(state / "gateway" / attempt_id, metered_model) as gateway:
        yield gateway


@contextmanager
def in_time(metered_model: MeteredModel | None, session: Session) -> Iterator[None]:
    """No request to the model outlives the agent's time: what is still open then is broken off."""
    if metered_model is None:
        yield
        return
    done = threading.Event()

    def watch() -> None:
        # The time left may grow: a wait for a person is not the agent's.
        while not done.wait(max(session.remaining.wall_sec, _TICK_SEC)):
            if session.remaining.wall_sec <= 0:
                metered_model.close()
                return

    watcher = threading.Thread(target=watch, name="model-watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def at_the_wall(ended: AgentExit, session: Session) -> AgentExit:
    """An agent whose request was broken off at the end of its time was ended by that."""
    failed = ended.code in {TerminationCode.LLM_ERROR, TerminationCode.AGENT_CRASHED}
    if failed and session.ended is None and session.remaining.wall_sec <= 0:
        try:
            session.check_budget()
        except SessionEnded as end:
            return AgentExit(end.code, end.rationale, end.evidence, end.rule)
    return ended


def blamed(ended: AgentExit, metered_model: MeteredModel | None) -> AgentExit:
    """A program that failed when its last request to the model had: the model's failure, not a crash of its own."""
    if metered_model is None or metered_model.fault is None or ended.code is not TerminationCode.AGENT_CRASHED:
        return ended
    why = f"{ended.rationale}; its last request to the model failed: {metered_model.fault.message}"
    return AgentExit(TerminationCode.LLM_ERROR, why, (*ended.evidence, metered_model.last_event))
