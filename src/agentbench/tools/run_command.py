"""The run tool: runs a shell command in the sandbox, in the workspace, and logs what it changed."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated

from pydantic import Field, StringConstraints, field_validator

from agentbench.contract.pytest_command import parse_pytest_command
from agentbench.core.command import Command, Completed, Stream
from agentbench.core.errors import AgentBenchError, PatchInvalid, ToolFault
from agentbench.core.reasons import Outcome
from agentbench.core.text import printable
from agentbench.sandbox.protocol import Sandbox
from agentbench.tools.definition import Arguments, Execution, Tool, ToolContext
from agentbench.tools.paths import show
from agentbench.tools.result import ToolError, ToolResult, shorten
from agentbench.tools.workspace_tracker import Changes
from agentbench.trace.events import Excerpt, TestsFinished, TestsStarted
from agentbench.tree.entry import FileWrite
from agentbench.workspace.diff.compare import FileChange
from agentbench.workspace.diff.file_patch import PatchLimits

MAX_COMMAND = 100_000
"""The kernel takes at most 128 KiB in one argument."""
KEEP_BYTES = 1024 * 1024
MAX_NAMED = 200
_KILL_SEC = 0.2
MAX_OUTSIDE_NAMED = 10

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=200)]
Text = Annotated[str, StringConstraints(max_length=MAX_COMMAND)]


class Run(Arguments):
    command: str = Field(min_length=1, max_length=MAX_COMMAND, description="Shell command line, run in the workspace.")
    timeout_sec: int | None = Field(
        default=None, ge=1, description="Time limit in seconds; the contract's own limit is the default and the most."
    )
    env: dict[Name, Text] | None = Field(default=None, description="Further environment variables.")

    @field_validator("command")
    @classmethod
    def _is_text(cls, value: str) -> str:
        return plain(value)

    @field_validator("env")
    @classmethod
    def _are_text(cls, value: dict[str, str] | None) -> dict[str, str] | None:
        return None if value is None else {name: plain(text) for name, text in value.items()}


def plain(value: str) -> str:
    """Reject text that cannot be passed as an argument of a process. Pydantic has checked that it is valid Unicode."""
    if "\0" in value:
        raise ValueError("must not contain a NUL character")
    return value


def run(context: ToolContext, arguments: Run) -> Execution:
    limit = context.rules.caps.tool_timeout_sec
    requested = float(arguments.timeout_sec or limit)
    command = Command(line=arguments.command, env=arguments.env or {}, timeout_sec=min(requested, limit))
    note = f"the time limit is {limit:g} s, not {requested:g} s" if requested > limit else ""
    if not is_test(arguments.command, context.rules.test_commands):
        return execute(context, command, note=note)
    ceiling = int(command.timeout_sec * 1_000_000)
    context.recorder.write(TestsStarted(step=context.call_id, command=arguments.command, ceiling_us=ceiling))
    execution = execute(context, command, note=note)
    context.recorder.write(_tests_finished(context.call_id, execution))
    return execution


def execute(context: ToolContext, command: Command, *, note: str = "") -> Execution:
    """Run a command within the remaining wall clock, then log what it changed in the workspace."""
    context.tracker.settle()  # the state before the command, to compare with
    timeout_sec = max(min(command.timeout_sec, context.time_left()), 0.001)
    bounded = replace(command, cwd=context.workdir, timeout_sec=timeout_sec, keep_bytes=KEEP_BYTES)
    completed = _run_until_over(context, bounded)
    changes = context.tracker.scan()
    mutated = context.tracker.log_changes(context.call_id, changes)
    return finish(context, completed, changes, mutated, note=note)


def _run_until_over(context: ToolContext, command: Command) -> Completed:
    """Run a command, and kill it if the attempt is ended meanwhile.

    Raises:
        ToolFault: the attempt was ended before the command could start.
    """
    if context.recorder.over.is_set():
        raise ToolFault("refused: the attempt is over", kind=ToolError.COMMAND_DENIED)
    exited = threading.Event()
    killer = threading.Thread(target=kill_until, args=(exited, context.sandbox), name="command-killer", daemon=True)

    def kill() -> None:
        with suppress(RuntimeError):  # started already
            killer.start()

    context.recorder.when_over(kill)
    try:
        return context.sandbox.run(command)
    finally:
        context.recorder.when_over(lambda: None)
        exited.set()
        if killer.ident is not None:
            killer.join()


def kill_until(exited: threading.Event, sandbox: Sandbox) -> None:
    """Kill all processes of a sandbox, again and again if a command was just being started."""
    while not exited.is_set():
        # If the sandbox died, the thread that waits for the command gets the error with its reason.
        with suppress(AgentBenchError):
            sandbox.kill_processes()
        exited.wait(_KILL_SEC)


def finish(
    context: ToolContext, completed: Completed, changes: Changes, mutated: int, *, note: str = "", ended_by: str = ""
) -> Execution:
    """Enforce the editable scope on what a command changed (logged as event `mutated`) and return its result.

    `ended_by`: why the harness killed the command, if it did.
    """
    reverted, scope_note = enforce_scope(context, changes, mutated)
    out = shorten(completed.stdout.kept, context.rules.output, dropped_bytes=completed.stdout.dropped_bytes)
    err = shorten(completed.stderr.kept, context.rules.output, dropped_bytes=completed.stderr.dropped_bytes)
    kind, message = _error(completed)
    if ended_by and kind is not None:
        kind, message = ToolError.NONZERO_EXIT, f"ended by the harness: {ended_by}"
    unknown = f"cannot tell what the command changed: {changes.problem}" if changes.problem is not None else ""
    changed = tuple(path for path in changes.own if path not in reverted)
    result = ToolResult(
        ok=kind is None,
        stdout=out.text,
        stderr=err.text,
        exit_code=completed.exit_code,
        changed_files=tuple(show(path) for path in changed[:MAX_NAMED]),
        error_type=kind,
        error_message=message,
        timed_out=completed.timed_out,
        truncated=out.truncated or err.truncated,
        note="; ".join(filter(None, (note, scope_note, unknown))),
    )
    return Execution(
        result,
        completed.stdout,
        completed.stderr,
        completed.killed,
        int(completed.duration_sec * 1_000_000),
        completed.processes,
    )


def _error(completed: Completed) -> tuple[ToolError | None, str | None]:
    if completed.timed_out:
        return ToolError.TIMEOUT, f"killed after {completed.duration_sec:.1f} s"
    if completed.exit_code == 0:
        return None, None
    why = f"exit status {completed.exit_code}"
    if completed.signal is not None:
        why += f" (signal {completed.signal})"
    if completed.oom:
        why += "; the sandbox ran out of memory"
    return ToolError.NONZERO_EXIT, why


_SEPARATORS = re.compile(r"\|\||&&|[;|&\n]")


def is_test(command: str, known: tuple[str, ...]) -> bool:
    """Return whether a command line runs the project's tests, so that test cycles can be counted."""
    pieces = [command.strip(), *(piece.strip() for piece in _SEPARATORS.split(command[:4_000]))]
    return any(piece in known or parse_pytest_command(piece) is not None for piece in pieces if piece)


def _tests_finished(step: str, execution: Execution) -> TestsFinished:
    """Describe one test cycle of the agent. The outcome is the exit status; no verdict uses it."""
    result = execution.result
    return TestsFinished(
        step=step,
        outcome=Outcome.PASS if result.ok else Outcome.FAIL,
        exit_code=result.exit_code,
        timed_out=result.timed_out,
        duration_us=execution.duration_us,
        stdout=_digest_only(execution.stdout),
        stderr=_digest_only(execution.stderr),
        why=result.error_message or "",
    )


def _digest_only(stream: Stream) -> Excerpt:
    """Return an excerpt without text, which the tool_call_finished event already holds."""
    return Excerpt(total_bytes=stream.total_bytes, sha256=stream.sha256, truncated=stream.total_bytes > 0)


def enforce_scope(context: ToolContext, changes: Changes, mutated: int) -> tuple[frozenset[bytes], str]:
    """Treat changes outside the editable scope as the contract says. `mutated`: the event that shows them.

    Returns the reverted paths and a note for the agent. Under `violation` nothing is reverted: a change becomes a finding only
    if it is still in the final patch, so here it is logged as a note.
    """
    outside = context.scope.outside(changes.own)
    if not outside:
        return frozenset(), ""
    named = ", ".join(show(path) for path in outside[:MAX_OUTSIDE_NAMED])
    named += f" and {len(outside) - MAX_OUTSIDE_NAMED} more" if len(outside) > MAX_OUTSIDE_NAMED else ""
    note = f"changed files outside the editable scope ({context.scope.describe()}): {named}"
    alert = context.recorder.alert("scope", "editable_globs", note, evidence=mutated)
    if not context.rules.revert_outside:
        return frozenset(), note
    reverted = frozenset(outside)
    problem = _revert(context, [change for change in changes.files if change.path in reverted])
    if problem:
        context.recorder.alert("scope", "not_reverted", f"cannot revert: {problem}", evidence=alert)
        return frozenset(), f"{note}; cannot revert: {problem}"
    context.recorder.intervene("rollback", alert, f"reverted: {named}")
    return reverted, f"{note}; reverted"


def _revert(context: ToolContext, changes: Sequence[FileChange]) -> str:
    """Restore files to their state before the session. Returns the problem, or "" on success."""
    limits = PatchLimits()
    left = limits.total_bytes
    writes: list[FileWrite] = []
    for change in changes:
        write = context.tracker.original(change, max_bytes=min(limits.file_bytes, left))
        if write is None:
            return f"the original content of {show(change.path)} is not available"
        left -= len(write.content or b"")
        writes.append(write)
    try:
        context.sandbox.write_files(writes)
    except PatchInvalid as error:
        return printable(error.message[:300])
    context.tracker.log_changes(context.call_id, context.tracker.wrote(writes))
    return ""


RUN = Tool(
    "run",
    "test",
    Run,
    run,
    description="Run a shell command in the workspace: tests, builds, anything installed. There is no network.",
)
