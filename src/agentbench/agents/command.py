"""An external program as the agent.

It runs in the workspace inside the sandbox, as one shell command line. Its own files are mounted read-only outside the
workspace. The trace shows only its effects: output, exit status, and what it left in the workspace. All processes it started
are killed when it ends. For each further turn of a session it runs again.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentbench.agents.base import AgentExit, AgentSetup, program_exit
from agentbench.core.errors import InputError
from agentbench.core.reasons import Observability
from agentbench.core.text import printable
from agentbench.sandbox.protocol import Mount
from agentbench.sandbox.shell_syntax import syntax_error
from agentbench.tools.program_run import AgentProgram
from agentbench.tools.session import Session

AGENT_FILES_TARGET = "/opt/agent"
BRIEFING_TARGET = "/tmp/agentbench/briefing.md"
"""Written at the start instead of mounted, so that the program can read it as any user."""

AGENT_FILES_VARIABLE = "AB_AGENT_FILES"
BRIEFING_VARIABLE = "AB_BRIEFING"
TURN_VARIABLE = "AB_TURN"
"""The number of the user's message; only set for tasks with `turns`."""


class CommandAgent:
    name = "command"

    def __init__(
        self, line: str, *, has_files: bool, has_model: bool = False, env: Mapping[str, str] | None = None
    ) -> None:
        # With a model, the trace also shows its requests to the gateway.
        self.observability = Observability.GATEWAY if has_model else Observability.PROCESS
        self._line = line
        self._has_files = has_files
        self._env = dict(env or {})
        self._turn = 0

    def run(self, session: Session) -> AgentExit:
        return self.go_on(session, session.briefing.text)

    def go_on(self, session: Session, message: str) -> AgentExit:
        """Run the program again in the workspace it left, with the new message as its briefing."""
        self._turn += 1
        session.place(BRIEFING_TARGET, message.encode())
        env = {**self._env, BRIEFING_VARIABLE: BRIEFING_TARGET}
        if self._turn > 1 or session.turns_left:
            env[TURN_VARIABLE] = str(self._turn)
        if self._has_files:
            env[AGENT_FILES_VARIABLE] = AGENT_FILES_TARGET
        return program_exit(session, session.run_program(AgentProgram("agent_command", self._line, env)))


def make(setup: AgentSetup) -> CommandAgent:
    """Create the agent.

    Raises:
        InputError: no usable command line.
    """
    if setup.command is None or not setup.command.strip():
        raise InputError("agent 'command' needs a command line", remedy="set it with --agent-command 'sh solve.sh'")
    if "\0" in setup.command:
        raise InputError("--agent-command contains a NUL character")
    if problem := syntax_error(setup.command):
        msg = f"the command of the agent is not valid shell syntax: {printable(problem)}"
        raise InputError(msg, remedy="check quotes and brackets of --agent-command or of the variant's `command`")
    has_files, has_model = setup.files is not None, setup.model is not None
    return CommandAgent(setup.command, has_files=has_files, has_model=has_model, env=setup.env)


def agent_mounts(setup: AgentSetup) -> tuple[Mount, ...]:
    """Return the mounts of the agent's sandbox. Grading sandboxes never have them.

    Raises:
        InputError: the folder with the agent's files does not exist.
    """
    if setup.files is None:
        return ()
    try:
        folder = setup.files.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        msg = f"--agent-files {setup.files}: cannot be opened: {error}"
        raise InputError(msg, remedy="give an existing folder") from None
    if not folder.is_dir():
        raise InputError(f"--agent-files {setup.files}: not a folder", remedy="give an existing folder")
    return (Mount(folder, AGENT_FILES_TARGET),)
