"""Move an agent to the stage that a tool needs, where the agent's own code calls the tool and not its model."""

from __future__ import annotations

from agentbench.tools.request_stage import MAX_REASON
from agentbench.tools.session import Session


def request_stage_for(tool: str, session: Session, reason: str) -> bool:
    """Ask for one stage after the other until a tool is allowed. Return whether it is; in auto mode nothing is asked for.

    Raises:
        SessionEnded, SandboxError.
    """
    while tool in session.tools and not session.allows(tool):
        following = session.next_stage
        if following is None or not session.request_stage(following, reason[:MAX_REASON]).ok:
            break
    return session.allows(tool)
