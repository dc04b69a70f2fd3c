"""The session: all an agent sees of the harness.

It offers a briefing, tools, what is left of the budget, and a way to stop. Behind it every call is checked against the
rules, carried out, and logged with its effects; a cap that is reached ends the session by `SessionEnded`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NoReturn

from pydantic import JsonValue

from agentbench.contract.schema import StageName
from agentbench.core.command import Command
from agentbench.core.errors import InputError, SandboxError, ToolFault
from agentbench.core.reasons import TerminationCode
from agentbench.core.text import printable
from agentbench.policy.breakers import Trip
from agentbench.tools.apply_patch import patch_workspace
from agentbench.tools.definition import Tool
from agentbench.tools.registry import TOOLS
from agentbench.tools.result import ToolError, ToolResult
from agentbench.tools.rules import STAGES, Rules
from agentbench.tools.run_command import execute
from agentbench.tools.session_end import SessionEnded
from agentbench.tools.session_limits import SessionLimits
from agentbench.tools.session_parts import AgentProgram, BriefingText, RemainingBudget, SessionEnvironment, SessionLog
from agentbench.tools.tool_context import Execution, ToolContext
from agentbench.tools.workspace_tracker import WorkspaceTracker
from agentbench.trace.events import (
    AgentTurnStarted,
    Briefing,
    Delegation,
    StageChanged,
    ToolCallFinished,
    ToolCallStarted,
)

__all__ = ["AgentProgram", "BriefingText", "RemainingBudget", "Session", "SessionEnvironment", "SessionLog"]


class Session:
    """See the module. Calls may come from several threads; they are carried out one after the other."""

    def __init__(
        self,
        briefing: BriefingText,
        environment: SessionEnvironment,
        rules: Rules,
        record: SessionLog,
        *,
        clock: Callable[[], float] = time.monotonic,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self.briefing = briefing
        self._coming = deque(enumerate(environment.turns, start=2))
        self._rules = rules
        self._limits = limits = SessionLimits(rules, record, environment, clock=clock, cancelled=cancelled)
        self._recorder = recorder = limits.recorder
        self._calls = self._programs = self._turns = 0
        self._stage: StageName | None = None
        self._lock = threading.RLock()
        tracker = WorkspaceTracker(environment.sandbox, environment.base, recorder, generated=rules.generated)
        self._context = ToolContext(
            environment.sandbox, environment.workdir, tracker, rules, recorder, limits.time_left
        )
        self.tools: Mapping[str, Tool] = {name: tool for name, tool in TOOLS.items() if self._offered(tool)}

    # --- what an agent uses ---------------------------------------------------------------------------------------

    @property
    def remaining(self) -> RemainingBudget:
        return self._limits.remaining

    @property
    def ended(self) -> SessionEnded | None:
        """How the session ended, if it has."""
        return self._limits.ended

    @property
    def last_event(self) -> int:
        """Number of the event that ended the last call: what an agent's end can point to."""
        return self._limits.last_event

    def call(self, name: str, arguments: JsonValue = None) -> ToolResult:
        """Call a tool by name. A bad call is a result that says what is wrong with it.

        Raises:
            SessionEnded: a cap is reached.
            SandboxError: the sandbox itself failed.
        """
        with self._lock:
            self._limits.check_open()
            self.check_budget()
            self._calls += 1
            started = ToolCallStarted(
                call_id=f"c{self._calls}",
                tool=printable(name[:80]),
                arguments=self._recorder.arguments(arguments),
                stage=self._stage,
                elapsed_us=self._limits.elapsed_us(),
            )
            trips = self._recorder.trips(self._recorder.write(started, "agent"))
            return self._carry_out(started, lambda: self._use(name, arguments, trips), waited=self._limits.wait(trips))

    def list_files(self, root: str = ".", glob: str | None = None) -> ToolResult:
        return self.call("list_files", {"root": root, "glob": glob})

    def read_file(self, path: str, start_line: int | None = None, end_line: int | None = None) -> ToolResult:
        return self.call("read_file", {"path": path, "start_line": start_line, "end_line": end_line})

    def search(self, query: str, glob: str | None = None, max_results: int = 100) -> ToolResult:
        return self.call("search", {"query": query, "glob": glob, "max_results": max_results})

    def apply_patch(self, unified_diff: str) -> ToolResult:
        return self.call("apply_patch", {"unified_diff": unified_diff})

    def run(self, command: str, timeout_sec: int | None = None, env: Mapping[str, str] | None = None) -> ToolResult:
        return self.call("run", {"command": command, "timeout_sec": timeout_sec, "env": dict(env) if env else None})

    def turn(self) -> int:
        """Say that a turn of the agent begins; its number."""
        with self._lock:
            self._limits.check_open()
            self._turns += 1
            self._recorder.write(AgentTurnStarted(turn=self._turns), "agent")
            return self._turns

    @property
    def turns_left(self) -> int:
        """Messages of the user that are still to come: an agent that ends its turn will be told the next."""
        return len(self._coming)

    def delegate(self, parent: str, child: str, role: str, task: str) -> None:
        """Say that one part of the agent hands work to another."""
        with self._lock:
            self._limits.check_open()
            shown = self._recorder.excerpt(task.encode("utf-8", "backslashreplace"))
            self._recorder.write(Delegation(parent=parent, child=child, role=role, task=shown), "agent")

    def request_stage(self, stage: StageName, why: str = "") -> ToolResult:
        """Ask for a privilege before a tool needs it: a plan is done, writing begins. Refused where the contract has none."""
        with self._lock:
            self._limits.check_open()
            try:
                self._enter(stage, printable(f"requested: {why}"[:300]))
            except ToolFault as fault:
                return ToolResult.refused(ToolError(fault.kind), fault.message)
            return ToolResult(ok=True, note=f"stage {self._stage}")

    def stop(self, rationale: str = "") -> NoReturn:
        """The agent is done."""
        why = printable(rationale[:1000], keep="\n")
        raise self._limits.finish(SessionEnded(TerminationCode.AGENT_STOPPED, why, self._limits.pointer()))

    def check_budget(self) -> None:
        """Whether anything may still be done: nothing is left of a cap, or a breaker has tripped, and the session ends.

        Raises:
            SessionEnded.
        """
        with self._lock:
            self._limits.check_budget()

    def out_of_budget(self, code: TerminationCode, why: str, *, shared: bool) -> NoReturn:
        """A request was refused for want of budget: the attempt's own, or one that several share.

        Raises:
            SessionEnded.
        """
        with self._lock:
            self._limits.out_of_budget(code, why, shared=shared)

    # --- what the harness does on behalf of an agent ----------------------------------------------------------------

    def begin(self) -> None:
        """Start the clock, log the briefing verbatim and enter the first stage."""
        self._limits.begin()
        parts = dict(self.briefing.parts)
        self._recorder.write(Briefing(text=self.briefing.text, sha256=self.briefing.sha256, parts=parts))
        first = next((stage for stage in STAGES if stage in self._rules.stages), None)
        if first is not None:
            self._change_stage(first, "the session begins")

    def next_turn(self) -> str | None:
        """The user's next message, logged verbatim; None when there is none. An agent that had stopped goes on.

        Raises:
            SessionEnded: a cap is reached: it limits all turns together.
        """
        with self._lock:
            if not self._coming:
                return None
            self._limits.go_on()
            self._limits.check_budget()
            number, text = self._coming.popleft()
            told = BriefingText(text, {"turn": str(number)})
            self._recorder.write(Briefing(text=text, sha256=told.sha256, parts=dict(told.parts)))
            return text

    def submit_patch(self, patch: bytes) -> ToolResult:
        """Apply a patch that the harness holds, such as a reference: it is never a file in the sandbox."""

        def work() -> Execution:
            self._enter("write", "apply_patch")
            return patch_workspace(self._context, patch, lenient=False)

        return self._for_agent("apply_patch", {"unified_diff": patch.decode("utf-8", "replace")}, work)

    def run_program(self, program: AgentProgram) -> ToolResult:
        """Run a program to its end. It is no tool call: only the wall clock limits it.

        Raises:
            InputError: the contract does not let commands run, so such an agent cannot be used with it.
            SessionEnded: the wall clock ran out.
        """
        if "run" not in self.tools:
            msg = f"the contract does not allow running commands, so it cannot be given to an {program.name}"
            raise InputError(
                msg, remedy="use an agent that works through tools, or allow `run` in the contract's policy"
            )
        if self._rules.deny_commands:
            detail = f"denied commands cannot be seen inside an {program.name}"
            self._recorder.alert("coverage", "not_observed", detail)

        def work() -> Execution:
            self._enter("test", program.name)
            line, limit = program.line, self._rules.caps.wall_sec
            return execute(self._context, Command(line=line, env=program.env, stdin=program.stdin, timeout_sec=limit))

        return self._for_agent(program.name, {"command": program.line, "env": " ".join(sorted(program.env))}, work)

    def place(self, path: str, content: bytes) -> None:
        """Put a file into the sandbox, outside of the workspace.

        Raises:
            SandboxError: it could not be written.
        """
        script = 'mkdir -p "${1%/*}" && cat > "$1"'
        command = Command(argv=("sh", "-c", script, "place", path), cwd="/", stdin=content)
        done = self._context.sandbox.run(command)
        if not done.ok:
            why = printable(done.stderr.kept[:300].decode("utf-8", "replace"))
            raise SandboxError(f"cannot write {path} in the sandbox: {why}")

    def close(self) -> None:
        """Let go of what the session holds open."""
        self._context.tracker.close()

    # --- behind it ------------------------------------------------------------------------------------------------

    def _for_agent(self, tool: str, arguments: dict[str, JsonValue], work: Callable[[], Execution]) -> ToolResult:
        with self._lock:
            self._limits.check_open()
            self._programs += 1
            logged = self._recorder.arguments(arguments)
            started = ToolCallStarted(
                call_id=f"h{self._programs}",
                tool=tool,
                arguments=logged,
                stage=self._stage,
                elapsed_us=self._limits.elapsed_us(),
            )
            self._recorder.write(started, "harness")
            return self._carry_out(started, work)

    def _use(self, name: str, arguments: JsonValue, trips: tuple[Trip, ...] = ()) -> Execution:
        tool = TOOLS.get(name)
        if tool is None:
            there = ", ".join(self.tools)
            raise ToolFault(
                f"there is no tool '{printable(name[:80])}' (there are: {there})", kind=ToolError.UNKNOWN_TOOL
            )
        if self._rules.tools and name not in self._rules.tools:
            raise ToolFault(f"the contract does not allow {name}", kind=ToolError.TOOL_DENIED)
        if arguments is not None and not isinstance(arguments, dict):
            raise ToolFault(f"{name}: arguments must be an object", kind=ToolError.INVALID_ARGUMENTS)
        self._limits.refuse(name, trips)
        self._enter(tool.stage, name)
        return tool.invoke(self._context, arguments or {})

    def _carry_out(self, started: ToolCallStarted, work: Callable[[], Execution], *, waited: str = "") -> ToolResult:
        self._context.call_id = started.call_id
        begin, paused = self._limits.clock(), self._limits.paused
        try:
            done = work()
        except ToolFault as fault:
            done = Execution(ToolResult.refused(ToolError(fault.kind), fault.message))
        # A person who thinks about it costs the agent nothing: neither money nor the share of its time that breakers look at.
        took = self._limits.clock() - begin - (self._limits.paused - paused)
        result = done.result
        if waited:
            result = replace(result, note="; ".join(filter(None, (waited, result.note))))
        finished = ToolCallFinished(
            call_id=started.call_id,
            tool=started.tool,
            ok=result.ok,
            exit_code=result.exit_code,
            timed_out=result.timed_out,
            duration_us=max(int(took * 1_000_000), 0),
            stdout=self._recorder.excerpt(done.stdout),
            stderr=self._recorder.excerpt(done.stderr),
            changed_files=list(result.changed_files),
            error_type=result.error_type,
            error_message=result.error_message,
            killed_processes=done.killed,
        )
        self._limits.last_event = self._recorder.write(finished)
        self._limits.check_breakers()
        self._limits.check_time()
        return result

    def _enter(self, stage: StageName, cause: str) -> None:
        """Take the privilege that a tool needs. Privileges only grow, and each step is an event."""
        if stage not in self._rules.stages:
            allowed = ", ".join(self._rules.stages) or "none"
            raise ToolFault(
                f"{cause} needs the stage '{stage}'; the contract has: {allowed}", kind=ToolError.STAGE_DENIED
            )
        if self._stage is None or STAGES.index(stage) > STAGES.index(self._stage):
            self._change_stage(stage, cause)

    def _change_stage(self, stage: StageName, cause: str) -> None:
        self._recorder.write(StageChanged(before=self._stage, after=stage, cause=cause))
        self._stage = stage

    def _offered(self, tool: Tool) -> bool:
        return tool.stage in self._rules.stages and (not self._rules.tools or tool.name in self._rules.tools)
