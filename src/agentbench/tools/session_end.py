"""How a session ends before its agent returns."""

from __future__ import annotations

from agentbench.core.reasons import TerminationCode


class SessionEnded(BaseException):
    """A cap was reached, or the agent stopped. Not an `Exception`, so that no agent handles it by accident."""

    def __init__(
        self, code: TerminationCode, rationale: str, evidence: tuple[int, ...] = (), *, rule: str = ""
    ) -> None:
        super().__init__(rationale)
        self.rule = rule
        """Of the monitor that ended it, if one did."""
        self.code = code
        self.rationale = rationale
        self.evidence = evidence
