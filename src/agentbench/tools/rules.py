"""What a contract lets an agent do: stages, tools, scopes, denied commands, caps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from agentbench.contract.schema import DenyCommand, StageName, Task
from agentbench.core.reasons import TerminationCode
from agentbench.tools.output import OutputPolicy
from agentbench.tools.scope import Scope

CallCap = Literal[TerminationCode.MAX_STEPS, TerminationCode.TOOL_CALL_CAP]
_MAX_STEPS: CallCap = TerminationCode.MAX_STEPS
_TOOL_CALL_CAP: CallCap = TerminationCode.TOOL_CALL_CAP

STAGES: tuple[StageName, ...] = ("inspect", "write", "test")
"""In order of privilege: reading, changing files by patches, running commands."""


@dataclass(frozen=True, slots=True)
class Caps:
    """Bounds of the agent phase. `call_cap` is how a run ends that used up its calls: it names the limit that held."""

    tool_calls: int = 30
    call_cap: CallCap = TerminationCode.MAX_STEPS
    wall_sec: float = 1800.0
    tool_timeout_sec: float = 120.0


@dataclass(frozen=True, slots=True)
class Rules:
    """`tools` empty: all of them."""

    caps: Caps = field(default_factory=Caps)
    stages: tuple[StageName, ...] = STAGES
    tools: tuple[str, ...] = ()
    editable_globs: tuple[str, ...] = ()
    readable_globs: tuple[str, ...] = ()
    allow_write: bool = True
    deny_commands: tuple[DenyCommand, ...] = ()
    generated: tuple[str, ...] = ()
    test_commands: tuple[str, ...] = ()
    """Command lines known to run the tests, besides those that are recognised."""
    output: OutputPolicy = field(default_factory=OutputPolicy)

    @property
    def scope(self) -> Scope:
        return Scope(editable=self.editable_globs, readable=self.readable_globs, allow_write=self.allow_write)


def rules_for(task: Task, *, max_steps: int | None = None) -> Rules:
    """The rules of a task; `max_steps` is the resolved value when the command line or a variant gave another.

    Of two limits on the same thing the smaller holds.
    """
    steps = task.agent.max_steps if max_steps is None else max_steps
    calls, cap = steps, _MAX_STEPS
    if task.budget.tool_calls is not None and task.budget.tool_calls < steps:
        calls, cap = task.budget.tool_calls, _TOOL_CALL_CAP
    allow_write = task.agent.allow_file_write
    return Rules(
        caps=Caps(
            tool_calls=calls,
            call_cap=cap,
            wall_sec=min(task.environment.timeout_sec, task.budget.wall_sec),
            tool_timeout_sec=task.environment.tool_timeout_sec,
        ),
        stages=tuple(stage for stage in task.policy.stages if allow_write or stage != "write"),
        tools=task.policy.tools,
        editable_globs=task.policy.editable_globs or task.agent.editable_globs,
        readable_globs=task.policy.readable_globs,
        allow_write=allow_write,
        deny_commands=task.policy.deny_commands,
        generated=task.oracle.generated,
        test_commands=_test_commands(task),
    )


def _test_commands(task: Task) -> tuple[str, ...]:
    known = [task.hints.test_command]
    if task.validation is not None:
        known += [task.validation.failing_command, task.validation.passing_command]
    return tuple(dict.fromkeys(command.strip() for command in known if command))
