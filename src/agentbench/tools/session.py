"""The session: everything an agent sees of the harness.

It offers the briefing, the tools, the remaining budget and a way to stop. Behind it, every call is checked against the rules,
executed, and logged together with its effects. Reaching a cap ends the session with `SessionEnded`.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, field, replace
from typing import Any, NoReturn

from pydantic import JsonValue

from agentbench.contract.schema import StageName
from agentbench.core.command import Command
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentCrashed, InputError, SandboxError, ToolFault
from agentbench.core.reasons import TerminationCode
from agentbench.core.text import printable
from agentbench.policy.breakers import Trip
from agentbench.policy.stages import REQUEST_STAGE
from agentbench.tools.apply_patch import patch_workspace
from agentbench.tools.definition import Execution, Tool, ToolContext
from agentbench.tools.program_run import RESPONSE_SCAN_SEC, AgentProgram, ProgramRun
from agentbench.tools.registry import TOOLS
from agentbench.tools.result import ToolError, ToolResult
from agentbench.tools.rules import Rules
from agentbench.tools.session_limits import (
    RemainingBudget,
    SessionEnded,
    SessionEnvironment,
    SessionLimits,
    SessionLog,
)
from agentbench.tools.stages import StageGate
from agentbench.tools.workspace_tracker import WorkspaceTracker
from agentbench.trace.events import (
    AGENT_CALL,
    PROGRAM_CALL,
    AgentTurnStarted,
    Briefing,
    Delegation,
    ProcessCounts,
    ToolCallFinished,
    ToolCallStarted,
)


@dataclass(frozen=True, slots=True)
class BriefingText:
    """The task description given to an agent, whole and by named part."""

    text: str
    parts: Mapping[str, str] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode("utf-8", "backslashreplace")).hexdigest()


class Session:
    """Runs the calls of one agent. Threads may call concurrently; calls are executed one at a time."""

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
        self._next_turns = deque(enumerate(environment.turns, start=2))
        self._rules = rules
        self._limits = limits = SessionLimits(rules, record, environment, clock=clock, cancelled=cancelled)
        self._recorder = recorder = limits.recorder
        self._calls = self._programs = self._turns = 0
        self._stages = StageGate(rules, recorder)
        self._program: ProgramRun | None = None
        self._close_gateway = environment.close_gateway
        self._lock = threading.RLock()
        tracker = WorkspaceTracker(environment.sandbox, environment.base, recorder, generated=rules.generated)
        self._context = ToolContext(
            environment.sandbox, environment.workdir, tracker, rules, recorder, self._stages, limits.time_left
        )
        self.tools: Mapping[str, Tool[Any]] = {name: tool for name, tool in TOOLS.items() if self._offered(tool)}

    # --- for agents -----------------------------------------------------------------------------------------------

    @property
    def remaining(self) -> RemainingBudget:
        return self._limits.remaining

    @property
    def ended(self) -> SessionEnded | None:
        """The cap, rule or decision that ended the session; None while it is open."""
        return self._limits.ended or self._limits.stop_of_breaker()

    @property
    def waited(self) -> float:
        """Seconds that were not the agent's: waits for an operator, or for a model that is unavailable."""
        return self._limits.paused

    @property
    def last_event(self) -> int:
        """Number of the event that finished the last call."""
        return self._limits.last_event

    def call(self, name: str, arguments: JsonValue = None) -> ToolResult:
        """Call a tool by name. An invalid call returns a result that says what is wrong with it.

        Raises:
            SessionEnded: a cap is spent.
            SandboxError: the sandbox itself failed.
        """
        with self._lock:
            self._limits.check_open()
            self.check_budget()
            self._calls += 1
            started = self._started(f"{AGENT_CALL}{self._calls}", printable(name[:80]), arguments)
            seq = self._recorder.write_unless_over(started, "agent")
            if not seq:
                self._limits.check_breakers()
            trips = self._recorder.trips(seq)
            note = self._limits.wait(trips)
            return self._execute(started, lambda: self._use(name, arguments, trips), note=note)

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
        """Log that a turn of the agent begins, and return its number."""
        with self._lock:
            self._limits.check_open()
            self._turns += 1
            self._recorder.write(AgentTurnStarted(turn=self._turns), "agent")
            return self._turns

    @property
    def turns_left(self) -> int:
        """Number of user messages still to come; the next one is sent when the agent ends its turn."""
        return len(self._next_turns)

    def delegate(self, parent: str, child: str, role: str, task: str) -> None:
        """Log that one part of the agent hands work to another."""
        with self._lock:
            self._limits.check_open()
            shown = self._recorder.excerpt(task.encode("utf-8", "backslashreplace"))
            self._recorder.write(Delegation(parent=parent, child=child, role=role, task=shown), "agent")

    @property
    def stage(self) -> str | None:
        """The current stage."""
        return self._stages.current

    @property
    def next_stage(self) -> StageName | None:
        """The only stage that can be requested in strict mode, or None after the last one."""
        return self._stages.following

    def allows(self, name: str) -> bool:
        """Return whether a tool is offered and the current stage grants it. In auto mode a call enters the stage it needs."""
        return name in self.tools and self._stages.grants(self.tools[name].stage)

    def request_stage(self, stage: StageName, reason: str = "") -> ToolResult:
        """Ask for a stage: in strict mode by a call of the tool, in auto mode in advance of a tool that needs it."""
        if self._stages.strict:
            return self.call(REQUEST_STAGE, {"stage": stage, "reason": reason})
        with self._lock:
            self._limits.check_open()
            try:
                self._stages.enter(stage, printable(f"requested: {reason}"[:300]))
            except ToolFault as fault:
                return ToolResult.refused(ToolError(fault.kind), fault.message)
            return ToolResult(ok=True, note=f"stage {self._stages.current}")

    def stop(self, rationale: str = "") -> NoReturn:
        """End the session at the agent's request.

        Raises:
            SessionEnded: always.
        """
        why = printable(rationale[:1000], keep="\n")
        raise self._limits.finish(SessionEnded(TerminationCode.AGENT_STOPPED, why, self._limits.evidence()))

    def check_budget(self) -> None:
        """
        Raises:
            SessionEnded: a cap is spent, or a breaker has tripped.
        """
        with self._lock:
            self._limits.check_budget()

    def out_of_budget(self, code: TerminationCode, why: str, *, shared: bool) -> NoReturn:
        """End the session because a model request was refused: the attempt's own budget, or a shared one, is spent.

        Raises:
            SessionEnded: always.
        """
        with self._lock:
            self._limits.out_of_budget(code, why, shared=shared)

    # --- for the harness, on behalf of an agent ---------------------------------------------------------------------

    def begin(self) -> None:
        """Start the clock, log the briefing verbatim and enter the first stage."""
        self._limits.begin()
        parts = dict(self.briefing.parts)
        self._recorder.write(Briefing(text=self.briefing.text, sha256=self.briefing.sha256, parts=parts))
        self._stages.begin()

    def next_turn(self) -> str | None:
        """Log and return the user's next message, or return None if there is none. Reopens a session that the agent stopped.

        Raises:
            SessionEnded: a cap is spent. Caps cover all turns together.
        """
        with self._lock:
            if not self._next_turns:
                return None
            self._limits.resume()
            self._limits.check_budget()
            number, text = self._next_turns.popleft()
            briefing = BriefingText(text, {"turn": str(number)})
            self._recorder.write(Briefing(text=text, sha256=briefing.sha256, parts=dict(briefing.parts)))
            return text

    def submit_patch(self, patch: bytes) -> ToolResult:
        """Apply a patch held by the harness, such as the reference. It never exists as a file in the sandbox."""

        def work() -> Execution:
            self._stages.advance("write", "apply_patch")
            return patch_workspace(self._context, patch, lenient=False)

        return self._for_agent("apply_patch", {"unified_diff": patch.decode("utf-8", "replace")}, work)

    def run_program(self, program: AgentProgram) -> ToolResult:
        """Run a program to its end. It does not count as a tool call.

        Raises:
            InputError: the contract does not allow running commands.
            SessionEnded: the wall clock ran out, or a rule or a cap has ended the program.
        """
        if "run" not in self.tools:
            msg = f"an {program.name} needs to run commands, and the contract does not allow it"
            raise InputError(
                msg, remedy="use an agent that works through tools, or allow `run` in the contract's policy"
            )
        if self._stages.strict and not program.of_task:
            msg = f"an {program.name} acts without tools, so `stage_mode: strict` cannot be enforced on it"
            raise InputError(msg, remedy="use an agent that works through tools, or `stage_mode: auto`")

        def work() -> Execution:
            self._stages.advance("test", program.name)
            self._program = ProgramRun(self._context, program, close_gateway=self._close_gateway)
            try:
                return self._program.execute()
            finally:
                self._program = None

        result = self._for_agent(program.name, {"command": program.line, "env": " ".join(sorted(program.env))}, work)
        if result.timed_out and self._limits.waited_for_model:
            # Waiting took longer than the sandbox allows for, so the program did not have all its time.
            raise self._limits.model_unavailable("out of time after waiting for a model that was unavailable")
        return result

    def place(self, path: str, content: bytes) -> None:
        """Write a file into the sandbox, outside the workspace.

        Raises:
            AgentCrashed: it could not be written, after the agent had acted in the sandbox.
            SandboxError: it could not be written before that.
        """
        script = 'mkdir -p "${1%/*}" && cat > "$1"'
        command = Command(argv=("sh", "-c", script, "place", path), cwd="/", stdin=content)
        completed = self._context.sandbox.run(command)
        if not completed.ok:
            why = printable(completed.stderr.kept[:300].decode("utf-8", "replace"))
            message = f"cannot write {path} in the sandbox: {why}"
            raise AgentCrashed(message) if self._calls or self._programs else SandboxError(message)

    def close(self) -> None:
        """Release the resources of the session."""
        self._context.tracker.close()

    # --- for the gateway, on its own threads: they must not wait for the session's lock, which a running program holds ---

    def before_request(self) -> None:
        """Observe the workspace before a program's model request is logged."""
        if (program := self._program) is not None:
            program.scan()

    def before_response(self) -> None:
        """Observe the workspace before a response to a program is logged, on which breakers decide."""
        if (program := self._program) is not None:
            program.scan(max_age_sec=RESPONSE_SCAN_SEC)

    def is_over(self) -> bool:
        """Return whether the attempt was ended. Called while the log is locked."""
        return self._recorder.over.is_set()

    def budget_refused(self, code: TerminationCode, why: str, *, shared: bool) -> None:
        """End a running program, because a request of it was refused for lack of budget."""

        def decide() -> str:
            with suppress(SessionEnded):
                self._limits.out_of_budget(code, why, shared=shared)
            return why

        if (program := self._program) is not None:
            program.end(decide)

    def model_waits(self, since: float, until: float) -> None:
        """Stop the clock while a request waits for a service that is unavailable."""
        self._limits.wait_for_model(since, until)

    def model_unavailable(self, why: str) -> None:
        """End the session, and a running program, because the model was unavailable for too long."""
        if (program := self._program) is not None:
            program.end(lambda: self._limits.model_unavailable(why).rationale)
        else:
            self._limits.model_unavailable(why)

    # --- internals ------------------------------------------------------------------------------------------------

    def _for_agent(self, tool: str, arguments: dict[str, JsonValue], work: Callable[[], Execution]) -> ToolResult:
        with self._lock:
            self._limits.check_open()
            self._programs += 1
            started = self._started(f"{PROGRAM_CALL}{self._programs}", tool, arguments)
            self._recorder.write(started, "harness")
            return self._execute(started, work)

    def _started(self, call_id: str, tool: str, arguments: JsonValue) -> ToolCallStarted:
        return ToolCallStarted(
            call_id=call_id,
            tool=tool,
            arguments=self._recorder.arguments(arguments),
            stage=self._stages.current,
            elapsed_us=self._limits.elapsed_us(),
        )

    def _use(self, name: str, arguments: JsonValue, trips: tuple[Trip, ...] = ()) -> Execution:
        tool = TOOLS.get(name)
        if tool is None or (name == REQUEST_STAGE and not self._stages.strict):
            available = ", ".join(self.tools)
            raise ToolFault(
                f"unknown tool '{printable(name[:80])}' (available: {available})", kind=ToolError.UNKNOWN_TOOL
            )
        if self._rules.tools and name not in self._rules.tools and tool.stage is not None:
            raise ToolFault(f"the contract does not allow {name}", kind=ToolError.TOOL_DENIED)
        if arguments is not None and not isinstance(arguments, dict):
            raise ToolFault(f"{name}: arguments must be an object", kind=ToolError.INVALID_ARGUMENTS)
        self._limits.refuse(name, trips, _shown_call(name, arguments or {}))
        self._stages.enter(tool.stage, name)
        return tool.invoke(self._context, arguments or {})

    def _execute(self, started: ToolCallStarted, work: Callable[[], Execution], *, note: str = "") -> ToolResult:
        self._context.call_id = started.call_id
        began, paused = self._limits.clock(), self._limits.paused
        try:
            execution = work()
        except ToolFault as fault:
            execution = Execution(ToolResult.refused(ToolError(fault.kind), fault.message))
        # Waiting for an operator is not the agent's time, neither for its budget nor for the breakers.
        took = self._limits.clock() - began - (self._limits.paused - paused)
        result = execution.result
        if note:
            result = replace(result, note="; ".join(filter(None, (note, result.note))))
        finished = ToolCallFinished(
            call_id=started.call_id,
            tool=started.tool,
            ok=result.ok,
            exit_code=result.exit_code,
            timed_out=result.timed_out,
            duration_us=max(int(took * 1_000_000), 0),
            stdout=self._recorder.excerpt(execution.stdout),
            stderr=self._recorder.excerpt(execution.stderr),
            changed_files=list(result.changed_files),
            error_type=result.error_type,
            error_message=result.error_message,
            killed_processes=execution.killed,
            processes=None if execution.processes is None else ProcessCounts(**asdict(execution.processes)),
            not_observed=execution.not_observed,
        )
        self._limits.last_event = self._recorder.write(finished)
        self._limits.check_breakers()
        if self._limits.ended is not None:
            raise self._limits.ended
        self._limits.check_time()
        return result

    def _offered(self, tool: Tool[Any]) -> bool:
        if tool.stage is None:
            return self._stages.strict
        return tool.stage in self._rules.stages and (not self._rules.tools or tool.name in self._rules.tools)


def _shown_call(name: str, arguments: dict[str, JsonValue]) -> str:
    """Return a call as an operator reads it: a command line, or the tool and its arguments."""
    command = arguments.get("command")
    if isinstance(command, str):
        return f"$ {command}"
    return f"{name} {json.dumps(arguments, ensure_ascii=False)}"
