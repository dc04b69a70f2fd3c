"""Attribute a lost sandbox: to the code that ran in it, unless the host had trouble."""

from __future__ import annotations

from typing import Literal

from agentbench.acceptance.grading_context import EventSink
from agentbench.core.errors import SandboxBroken, SandboxLost
from agentbench.policy.host_trouble import describe_host, host_troubles
from agentbench.trace import events


def attribute_loss(
    lost: SandboxLost, phase: Literal["agent", "grading"], log: EventSink
) -> SandboxBroken | SandboxLost:
    """Log the loss of a sandbox in which code of the agent or the candidate ran, and return the error to raise for it."""
    troubles = host_troubles(lost.evidence)
    log.append(
        events.SandboxLost(
            phase=phase,
            sandbox=lost.sandbox,
            why=lost.message,
            host=lost.evidence,
            blame="host" if troubles else "candidate",
        )
    )
    if troubles:
        message = f"{lost.message}; trouble of the host: {', '.join(troubles)}"
        return SandboxLost(message, sandbox=lost.sandbox, evidence=lost.evidence, remedy=lost.remedy)
    return SandboxBroken(f"{lost.message}; the host shows no trouble: {describe_host(lost.evidence)}")
