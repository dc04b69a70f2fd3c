"""Runs a program that acts as the agent, and observes it while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentbench.core.command import Command
from agentbench.tools.definition import Execution, ToolContext
from agentbench.tools.process_recorder import ProcessRecorder
from agentbench.tools.run_command import execute


@dataclass(frozen=True, slots=True)
class AgentProgram:
    """A program that acts as the agent: it runs in the sandbox until it exits or the wall clock runs out."""

    name: str
    line: str
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    of_task: bool = False
    """Whether it belongs to the task, like a reference script, and is not the agent under evaluation."""


class ProgramRun:
    """One run of an agent program."""

    def __init__(self, context: ToolContext, program: AgentProgram) -> None:
        self._context = context
        self._program = program

    def execute(self) -> Execution:
        """Run the program to its end.

        Raises:
            SandboxError: the sandbox itself failed.
            RecordError: a process could not be logged.
        """
        program, limit = self._program, self._context.rules.caps.wall_sec
        command = Command(line=program.line, env=program.env, stdin=program.stdin, timeout_sec=limit)
        processes = ProcessRecorder(self._context.recorder, self._context.call_id)
        execution = execute(self._context, command, observe=processes)
        processes.check()
        return execution
