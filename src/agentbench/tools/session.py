"""The session: everything an agent sees of the harness.

It offers the briefing, the tools, the remaining budget and a way to stop. Behind it, every call is checked against the rules,
executed, and logged together with its effects. Reaching a cap ends the session with `SessionEnded`.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NoReturn

from pydantic import JsonValue

from agentbench.contract.schema import StageName
from agentbench.core.command import Command
from agentbench.core.errors import InputError, Interrupted, SandboxError, ToolFault
from agentbench.core.reasons import TerminationCode
from agentbench.core.text import printable
from agentbench.policy.breakers import READING, WRITING, Trip
from agentbench.policy.budget import reached_cap
from agentbench.policy.monitors import DENY_COMMANDS, PolicyMonitor
from agentbench.policy.prices import MICRO
from agentbench.policy.resource_alerts import ResourceAlerts
from agentbench.policy.rule_engine import RuleEngine
from agentbench.policy.stages import REQUEST_STAGE
from agentbench.sandbox.protocol import Sandbox
from agentbench.tools.apply_patch import patch_workspace
from agentbench.tools.definition import Execution, Tool, ToolContext
from agentbench.tools.event_recorder import EventRecorder, stored_text
from agentbench.tools.operator import DEADLINE_RULE, Operator, ask
from agentbench.tools.program_run import RESPONSE_SCAN_SEC, AgentProgram, ProgramRun
from agentbench.tools.registry import TOOLS
from agentbench.tools.result import ToolError, ToolResult
from agentbench.tools.rules import Rules
from agentbench.tools.stages import StageGate
from agentbench.tools.workspace_tracker import WorkspaceTracker
from agentbench.trace.blobs import BlobStore
from agentbench.trace.events import (
    AgentTurnStarted,
    Briefing,
    Delegation,
    OperatorDecision,
    ProcessCounts,
    ToolCallFinished,
    ToolCallStarted,
)
from agentbench.trace.log import EventLog
from agentbench.tree.entry import Tree

_MIN_TIME_LEFT = 0.01
"""Seconds. Less than this counts as no time: a command killed by the wall clock ends this close to the cap."""


class SessionEnded(BaseException):
    """A cap was reached, or the agent stopped. Not an `Exception`, so that no agent handles it by accident."""

    def __init__(
        self, code: TerminationCode, rationale: str, evidence: tuple[int, ...] = (), *, rule: str = ""
    ) -> None:
        super().__init__(rationale)
        self.rule = rule
        """The monitor rule that ended the session, if one did."""
        self.code = code
        self.rationale = rationale
        self.evidence = evidence


@dataclass(frozen=True, slots=True)
class SessionEnvironment:
    """The sandbox an agent works in, and what the session needs to know about it.

    `base` is the workspace as the agent finds it. `turns` are further user messages, sent one at a time when the agent has
    ended its turn.
    """

    sandbox: Sandbox
    workdir: str = "/workspace"
    base: Tree | None = None
    operator: Operator | None = None
    turns: tuple[str, ...] = ()
    close_gateway: Callable[[], None] = lambda: None
    """Refuses further model requests of a program in the sandbox."""
    shared_cap: Callable[[], tuple[TerminationCode, str] | None] = lambda: None
    """Returns why to stop when a cap shared with other attempts is spent."""
    resource_alerts: ResourceAlerts = field(default_factory=ResourceAlerts)
    """Shared with the resource samples of the attempt, so that nothing is reported twice."""


@dataclass(frozen=True, slots=True)
class SessionLog:
    """The event log and the blob store a session writes to."""

    log: EventLog
    blobs: BlobStore | None = None


@dataclass(frozen=True, slots=True)
class BriefingText:
    """The task description given to an agent, whole and by named part."""

    text: str
    parts: Mapping[str, str] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode("utf-8", "backslashreplace")).hexdigest()


@dataclass(frozen=True, slots=True)
class RemainingBudget:
    """The part of each cap that is left. None means no limit."""

    tool_calls: int | None
    wall_sec: float
    tokens: int | None = None
    usd: float | None = None
    """Excludes the part of the cap that is reserved for acceptance and logging."""


class SessionLimits:
    """Enforces what ends or delays a session: time, caps, breakers, and an operator's decision.

    The rule engine decides by folding over the log. This class carries out its decisions and those of the clock, and logs the reason
    before it raises `SessionEnded`.
    """

    def __init__(
        self,
        rules: Rules,
        record: SessionLog,
        environment: SessionEnvironment,
        *,
        clock: Callable[[], float],
        cancelled: Callable[[], bool],
    ) -> None:
        self.engine = RuleEngine(rules.limits, _monitor(rules, record))
        self.recorder = EventRecorder(record.log, record.blobs, self.engine)
        self.clock = clock
        self.sleep: Callable[[float], None] = time.sleep
        self.cancelled = cancelled
        self.operator = environment.operator
        self.ended: SessionEnded | None = None
        self.last_event = 0
        """Number of the event that finished the last call; an ending refers to it as evidence."""
        self._rules = rules
        self._shared_cap = environment.shared_cap
        self._started = clock()
        self.paused = 0.0
        """Seconds spent waiting for an operator."""

    def begin(self) -> None:
        """Start the clock."""
        self._started = self.clock()

    @property
    def remaining(self) -> RemainingBudget:
        budget, spent = self._rules.caps.budget, self.engine.spent
        cost = _left(budget.cost_micro_usd, spent.cost_micro(budget))
        return RemainingBudget(
            tool_calls=_left(budget.tool_calls, spent.tool_calls),
            wall_sec=max(self.time_left(), 0.0),
            tokens=_left(budget.tokens, spent.tokens),
            usd=None if cost is None else cost / MICRO,
        )

    def resume(self) -> None:
        """Reopen a session that the agent itself stopped, because another turn follows."""
        if self.ended is not None and self.ended.code is TerminationCode.AGENT_STOPPED:
            self.ended = None

    def check_budget(self) -> None:
        """
        Raises:
            SessionEnded: a cap is spent, or a breaker has tripped.
        """
        self.check_open()
        self.check_breakers()
        cap = reached_cap(self.engine.spent, self._rules.caps.budget, self._rules.limits.not_applicable)
        if cap is not None:
            self._end_by_cap(cap.code, cap.rationale)
        shared = self._shared_cap()
        if shared is not None:
            self._end_by_cap(*shared, {"refused": 1, "shared": 1})

    def out_of_budget(self, code: TerminationCode, why: str, *, shared: bool) -> NoReturn:
        """
        Raises:
            SessionEnded: a model request was refused because a budget is spent.
        """
        if self.ended is None:
            self._end_by_cap(code, why, {"refused": 1, "shared": int(shared)})
        raise self.ended

    def refuse(self, name: str, trips: tuple[Trip, ...]) -> None:
        """Apply the rule engine's decisions about a call before the tool runs.

        Raises:
            ToolFault: the call is refused.
            SessionEnded: the operator, or the deadline, says stop.
        """
        for trip in trips:
            if trip.action == "pause":
                self._ask_operator(trip)
            elif trip.action in {"deny", "quarantine", "terminate"}:
                why = (
                    f"the contract denies commands like '{trip.rule}'" if trip.monitor == DENY_COMMANDS else trip.detail
                )
                raise ToolFault(f"refused: {why}", kind=ToolError.COMMAND_DENIED)
        if name in READING:
            return
        if self.engine.quarantined is not None:
            why = f"the workspace is quarantined ({self.engine.quarantined.rule}): only reading is allowed"
            raise ToolFault(why, kind=ToolError.QUARANTINED)
        if name in WRITING and self.engine.writes_suspended:
            reads = self._rules.thresholds.reads_to_restore
            why = f"too many patches in a row were refused: make {reads} reading calls before the next patch"
            raise ToolFault(why, kind=ToolError.WRITE_SUSPENDED)

    def wait(self, trips: tuple[Trip, ...]) -> str:
        """Apply backpressure, and return a note about it for the agent."""
        throttles = [trip for trip in trips if trip.action == "throttle"]
        if not throttles:
            return ""
        seconds = min(max(trip.signals["wait_ms"] for trip in throttles) / 1000, max(self.time_left(), 0.0))
        self.sleep(seconds)
        return f"backpressure: waited {seconds:g} s, {throttles[0].detail}"

    def _ask_operator(self, trip: Trip) -> None:
        """Wait for the operator's decision. The wait does not count as the agent's time.

        Raises:
            SessionEnded: the operator, or the deadline, says stop.
        """
        started = self.clock()
        alert = self.recorder.alert_of(trip)
        answer = ask(self.operator, trip, alert, self._rules.thresholds.operator_deadline_sec)
        waited = self.clock() - started
        self.paused += waited
        decision = self.recorder.write(
            OperatorDecision(
                decision=answer.decision,
                operator=answer.operator,
                justification=answer.justification,
                alert=alert,
                waited_us=0 if answer.operator == DEADLINE_RULE else max(int(waited * 1_000_000), 0),
            ),
            "operator",
        )
        if answer.decision == "stop":
            why = f"{answer.operator}: {answer.justification}"
            raise self.finish(SessionEnded(TerminationCode.OPERATOR_ABORT, why, (alert, decision)))

    def check_open(self) -> None:
        """
        Raises:
            SessionEnded: the session is over, or its time is.
            Interrupted: the run was cancelled.
        """
        if self.ended is not None:
            raise self.ended
        if self.cancelled():
            raise Interrupted("interrupted")
        self.check_time()

    def check_time(self) -> None:
        if self.time_left() <= _MIN_TIME_LEFT:
            wall_sec = self._rules.caps.wall_sec
            signals = {"elapsed_us": self.elapsed_us(), "cap_us": int(wall_sec * 1_000_000)}
            self._end_by_cap(TerminationCode.WALL_CAP, f"reached the wall-clock cap of {wall_sec:g} s", signals)

    def check_breakers(self) -> None:
        """
        Raises:
            SessionEnded: a breaker has tripped.
        """
        stop = self.stop_of_breaker()
        if stop is not None:
            raise self.finish(stop)

    def stop_of_breaker(self) -> SessionEnded | None:
        """Return how a breaker or a monitor has ended the session, if one has."""
        stop = self.engine.stop
        if stop is None or stop.code is None:
            return None
        return SessionEnded(stop.code, stop.detail, (self.recorder.alert_of(stop), *stop.evidence), rule=stop.rule)

    def _end_by_cap(self, code: TerminationCode, why: str, signals: Mapping[str, int] | None = None) -> NoReturn:
        alert = self.recorder.alert(
            "budget", code, why, severity="terminate", evidence=self.last_event, signals=signals
        )
        self.recorder.intervene("terminate", alert, why)
        raise self.finish(SessionEnded(code, why, (alert, *self.evidence())))

    def finish(self, end: SessionEnded) -> SessionEnded:
        """Record how the session ended; the first ending counts. A logged decision of a breaker comes before any other."""
        self.ended = self.ended or self.stop_of_breaker() or end
        return self.ended

    def evidence(self) -> tuple[int, ...]:
        return (self.last_event,) if self.last_event else ()

    def time_left(self) -> float:
        return self._rules.caps.wall_sec - self.elapsed()

    def elapsed(self) -> float:
        """Seconds since the session began, without the time spent waiting for an operator."""
        return self.clock() - self._started - self.paused

    def elapsed_us(self) -> int:
        return max(int(self.elapsed() * 1_000_000), 0)


def _left(cap: int | None, used: int) -> int | None:
    return None if cap is None else max(cap - used, 0)


def _monitor(rules: Rules, record: SessionLog) -> PolicyMonitor:
    redact = record.log.redact
    return PolicyMonitor(
        rules.contract,
        blobs=lambda name: stored_text(record.blobs, name),
        redact=redact.text if redact else lambda text: text,
    )


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
        self._resources = environment.resource_alerts
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
        """How the session ended; None while it is open."""
        return self._limits.ended or self._limits.stop_of_breaker()

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
            started = self._started(f"c{self._calls}", printable(name[:80]), arguments)
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

        return self._for_agent(program.name, {"command": program.line, "env": " ".join(sorted(program.env))}, work)

    def place(self, path: str, content: bytes) -> None:
        """Write a file into the sandbox, outside the workspace.

        Raises:
            SandboxError: it could not be written.
        """
        script = 'mkdir -p "${1%/*}" && cat > "$1"'
        command = Command(argv=("sh", "-c", script, "place", path), cwd="/", stdin=content)
        completed = self._context.sandbox.run(command)
        if not completed.ok:
            why = printable(completed.stderr.kept[:300].decode("utf-8", "replace"))
            raise SandboxError(f"cannot write {path} in the sandbox: {why}")

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

    # --- internals ------------------------------------------------------------------------------------------------

    def _for_agent(self, tool: str, arguments: dict[str, JsonValue], work: Callable[[], Execution]) -> ToolResult:
        with self._lock:
            self._limits.check_open()
            self._programs += 1
            started = self._started(f"h{self._programs}", tool, arguments)
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
        self._limits.refuse(name, trips)
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
        for alert in self._resources.alerts(self._limits.last_event, finished):
            self._recorder.write(alert, "monitor")
        self._limits.check_breakers()
        if self._limits.ended is not None:
            raise self._limits.ended
        self._limits.check_time()
        return result

    def _offered(self, tool: Tool[Any]) -> bool:
        if tool.stage is None:
            return self._stages.strict
        return tool.stage in self._rules.stages and (not self._rules.tools or tool.name in self._rules.tools)
