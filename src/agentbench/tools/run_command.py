"""run: a shell command in the sandbox, in the workspace."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field, StringConstraints, field_validator

from agentbench.contract.pytest_command import recognise
from agentbench.core.command import Command, Completed, Stream
from agentbench.core.reasons import Outcome
from agentbench.tools.definition import Arguments, define
from agentbench.tools.output import shorten
from agentbench.tools.paths import show
from agentbench.tools.result import ToolError, ToolResult
from agentbench.tools.revert import enforce_scope
from agentbench.tools.tool_context import Execution, ToolContext
from agentbench.trace.events import Excerpt, TestsFinished, TestsStarted

MAX_COMMAND = 100_000
"""The kernel takes at most 128 KiB in one argument."""
KEEP_BYTES = 1024 * 1024
MAX_NAMED = 200

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
        return None if value is None else {name: plain(one) for name, one in value.items()}


def plain(value: str) -> str:
    """Text that a process can be given as an argument (that it is Unicode was checked before)."""
    if "\0" in value:
        msg = "must not have a NUL character in it"
        raise ValueError(msg)
    return value


def run(context: ToolContext, arguments: Run) -> Execution:
    limit = context.rules.caps.tool_timeout_sec
    asked = float(arguments.timeout_sec or limit)
    command = Command(line=arguments.command, env=arguments.env or {}, timeout_sec=min(asked, limit))
    lowered = f"the time limit is {limit:g} s, not {asked:g} s" if asked > limit else ""
    if not is_test(arguments.command, context.rules.test_commands):
        return execute(context, command, note=lowered)
    ceiling = int(command.timeout_sec * 1_000_000)
    context.recorder.write(TestsStarted(step=context.call_id, command=arguments.command, ceiling_us=ceiling))
    work = execute(context, command, note=lowered)
    context.recorder.write(_tests_finished(context.call_id, work))
    return work


def execute(context: ToolContext, command: Command, *, note: str = "") -> Execution:
    """Run within what is left of the wall clock, then look at what the command changed and log it."""
    context.tracker.settle()  # what is compared with must be known before anything can change
    within = Command(
        line=command.line,
        env=command.env,
        stdin=command.stdin,
        cwd=context.workdir,
        timeout_sec=max(min(command.timeout_sec, context.time_left()), 0.001),
        keep_bytes=KEEP_BYTES,
    )
    completed = context.sandbox.run(within)
    changes = context.tracker.scan()
    reverted, about_scope = enforce_scope(context, changes)
    out = shorten(completed.stdout.kept, context.rules.output, dropped_bytes=completed.stdout.dropped_bytes)
    err = shorten(completed.stderr.kept, context.rules.output, dropped_bytes=completed.stderr.dropped_bytes)
    kind, message = _error(completed)
    unknown = f"what the command changed cannot be told: {changes.problem}" if changes.problem is not None else ""
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
        note="; ".join(filter(None, (note, about_scope, unknown))),
    )
    return Execution(
        result, completed.stdout, completed.stderr, completed.killed, int(completed.duration_sec * 1_000_000)
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
    """Whether a command line runs the project's tests, so that cycles of testing can be counted."""
    pieces = [command.strip(), *(piece.strip() for piece in _SEPARATORS.split(command[:4_000]))]
    return any(piece in known or recognise(piece) is not None for piece in pieces if piece)


def _tests_finished(step: str, work: Execution) -> TestsFinished:
    """A cycle of the agent's own testing. Its outcome is what the exit status says: no verdict is taken from it."""
    result = work.result
    return TestsFinished(
        step=step,
        outcome=Outcome.PASS if result.ok else Outcome.FAIL,
        exit_code=result.exit_code,
        timed_out=result.timed_out,
        duration_us=work.duration_us,
        stdout=_digest_only(work.stdout),
        stderr=_digest_only(work.stderr),
        why=result.error_message or "",
    )


def _digest_only(stream: Stream) -> Excerpt:
    """The text is in the end of the tool call."""
    return Excerpt(total_bytes=stream.total_bytes, sha256=stream.sha256, truncated=stream.total_bytes > 0)


RUN = define(
    "run",
    "test",
    Run,
    run,
    description="Run a shell command in the workspace: tests, builds, anything installed. There is no network.",
)
