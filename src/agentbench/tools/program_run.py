"""Runs a program that acts as the agent, and observes it while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentbench.core.command import Command
from agentbench.tools.definition import Execution, ToolContext
from agentbench.tools.run_command import execute


@dataclass(frozen=True, slots=True)
class AgentProgram:
    """A program that acts as the agent: it runs in the sandbox until it exits or the wall clock runs out."""

    name: str
    line: str
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""


class ProgramRun:
    """One run of an agent program."""

    def __init__(self, context: ToolContext, program: AgentProgram) -> None:
        self._context = context
        self._program = program

    def execute(self) -> Execution:
        """Run the program to its end.

        Raises:
            SandboxError: the sandbox itself failed.
        """
        program, limit = self._program, self._context.rules.caps.wall_sec
        command = Command(line=program.line, env=program.env, stdin=program.stdin, timeout_sec=limit)
        return execute(self._context, command)
