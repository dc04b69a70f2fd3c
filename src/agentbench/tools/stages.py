"""The stages of a session: which tools the current stage grants, and how a session moves to the next stage.

In `auto` mode a call enters the stage its tool needs. In `strict` mode it does not: the agent asks for the next stage with
`request_stage`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench.contract.schema import StageName
from agentbench.core.errors import ToolFault
from agentbench.core.text import printable
from agentbench.policy.stages import PLAN, REQUEST_STAGE, StageOrder
from agentbench.tools.result import ToolError
from agentbench.trace.events import StageChanged

if TYPE_CHECKING:
    from agentbench.tools.event_recorder import EventRecorder
    from agentbench.tools.rules import Rules

STAGES: tuple[StageName, ...] = ("inspect", "write", "test")
"""In order of privilege: read files, change files by patches, run commands."""


class StageGate:
    """Holds the current stage. Stages only go up, and each change is logged."""

    def __init__(self, rules: Rules, recorder: EventRecorder) -> None:
        self.strict = rules.stage_mode == "strict"
        listed = rules.stages if self.strict else tuple(stage for stage in STAGES if stage in rules.stages)
        self._order: StageOrder[StageName] = StageOrder(listed)
        self._recorder = recorder
        self.current: StageName | None = None

    def begin(self) -> None:
        """Enter the first stage."""
        if self.current is None and self.following is not None:
            self._change(self.following, "session started")

    @property
    def following(self) -> StageName | None:
        """The stage after the current one."""
        return self._order.following(self.current)

    def grants(self, stage: StageName | None) -> bool:
        """Return whether a tool of this stage can be called now. None stands for tools that need no stage."""
        if stage is None or not self.strict:
            return stage is None or stage in self._order.stages
        return self._order.grants(self.current, stage)

    def enter(self, stage: StageName | None, cause: str) -> None:
        """Check that a call may use a tool of this stage. In auto mode this enters the stage.

        Raises:
            ToolFault: stage_denied.
        """
        if stage is None:
            return
        self._require_listed(stage, cause)
        if self._order.grants(self.current, stage):
            return
        if self.strict:
            why = f"{cause} needs the stage '{stage}'; the current stage is '{self.current}'"
            how = f"ask for the next stage with {REQUEST_STAGE}(stage='{self.following}', reason=…)"
            raise ToolFault(f"{why}: {how}{_plan_note(self.current)}", kind=ToolError.STAGE_DENIED)
        self._change(stage, cause)

    def request(self, stage: StageName, reason: str) -> None:
        """Enter the next stage at the agent's request. A request for the current stage changes nothing.

        Raises:
            ToolFault: stage_denied, because the stage is not the next one.
        """
        self._require_listed(stage, REQUEST_STAGE)
        if stage == self.current:
            return
        if self._order.grants(self.current, stage):
            why = f"the stage '{stage}' is behind the current stage '{self.current}', which still grants its tools"
            raise ToolFault(why, kind=ToolError.STAGE_DENIED)
        if stage != self.following:
            why = f"the stage '{stage}' does not follow '{self.current}': ask for '{self.following}' first"
            raise ToolFault(f"{why}{_plan_note(self.current)}", kind=ToolError.STAGE_DENIED)
        self._change(stage, REQUEST_STAGE, printable(reason, keep="\n"))

    def advance(self, stage: StageName, cause: str) -> None:
        """Enter a stage on behalf of the harness, in strict mode one listed stage after the other.

        Raises:
            ToolFault: the contract does not list the stage.
        """
        self._require_listed(stage, cause)
        if not self.strict:
            self.enter(stage, cause)
        while not self._order.grants(self.current, stage) and self.following is not None:
            self._change(self.following, cause, f"the harness runs {cause}")

    def _require_listed(self, stage: StageName, cause: str) -> None:
        if stage not in self._order.stages:
            allowed = ", ".join(self._order.stages) or "none"
            message = f"{cause} needs the stage '{stage}'; the contract allows: {allowed}"
            raise ToolFault(message, kind=ToolError.STAGE_DENIED)

    def _change(self, stage: StageName, cause: str, reason: str = "") -> None:
        self._recorder.write(StageChanged(before=self.current, after=stage, cause=cause, reason=reason))
        self.current = stage


def _plan_note(current: str | None) -> str:
    return "; its reason is recorded as your plan" if current == PLAN else ""
