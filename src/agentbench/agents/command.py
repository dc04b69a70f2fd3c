"""An external program as the agent.

It runs inside the sandbox, in the workspace, as one shell command line. Its own files are mounted read-only outside the
workspace. Only its effects are seen: output, exit status, what it left in the workspace. Whatever it started is dead when
it has ended. For each further turn of a session it is run again.
"""

from __future__ import annotations

from agentbench.agents.base import AgentExit, AgentSetup
from agentbench.core.errors import InputError
from agentbench.core.reasons import Observability, TerminationCode
from agentbench.sandbox.protocol import Mount
from agentbench.tools.session import AgentProgram, Session

AGENT_FILES_TARGET = "/opt/agent"
BRIEFING_TARGET = "/tmp/agentbench/briefing.md"
"""Written at the start and not mounted: a program may expect to read it whatever user it runs as."""

AGENT_FILES_VARIABLE = "AB_AGENT_FILES"
BRIEFING_VARIABLE = "AB_BRIEFING"
TURN_VARIABLE = "AB_TURN"
"""Which of the user's messages the briefing is; only set for tasks with `turns`."""


class CommandAgent:
    name = "command"

    def __init__(self, line: str, *, has_files: bool, has_model: bool = False) -> None:
        # With a model its traffic passes the gateway; without one only its effects are seen.
        self.observability = Observability.GATEWAY if has_model else Observability.PROCESS
        self._line = line
        self._has_files = has_files
        self._turn = 0

    def run(self, session: Session) -> AgentExit:
        return self.go_on(session, session.briefing.text)

    def go_on(self, session: Session, message: str) -> AgentExit:
        """The program again, in the workspace it left, with the new message as its briefing."""
        self._turn += 1
        session.place(BRIEFING_TARGET, message.encode())
        env = {BRIEFING_VARIABLE: BRIEFING_TARGET}
        if self._turn > 1 or session.turns_left:
            env[TURN_VARIABLE] = str(self._turn)
        if self._has_files:
            env[AGENT_FILES_VARIABLE] = AGENT_FILES_TARGET
        result = session.run_program(AgentProgram("agent_command", self._line, env))
        evidence = (session.last_event,)
        if result.ok:
            return AgentExit(TerminationCode.AGENT_STOPPED, "the program ended with status 0", evidence)
        # What it left behind is graded all the same.
        return AgentExit(TerminationCode.AGENT_CRASHED, f"the program ended with {result.error_message}", evidence)


def make(setup: AgentSetup) -> CommandAgent:
    """
    Raises:
        InputError: there is no command.
    """
    if setup.command is None or not setup.command.strip():
        msg = "the agent 'command' needs a command line to run"
        raise InputError(msg, remedy="give it with --agent-command 'sh solve.sh'")
    if "\0" in setup.command:
        msg = "the command line of the agent has a NUL character in it"
        raise InputError(msg)
    return CommandAgent(setup.command, has_files=setup.files is not None, has_model=setup.model is not None)


def agent_mounts(setup: AgentSetup) -> tuple[Mount, ...]:
    """What the agent's sandbox must mount for it; the grader never does.

    Raises:
        InputError: the folder of the agent's files is not there.
    """
    if setup.files is None:
        return ()
    try:
        folder = setup.files.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        msg = f"the folder of the agent's files {setup.files} cannot be found: {error}"
        raise InputError(msg, remedy="--agent-files takes an existing folder") from None
    if not folder.is_dir():
        msg = f"{setup.files} is not a folder"
        raise InputError(msg, remedy="--agent-files takes an existing folder")
    return (Mount(folder, AGENT_FILES_TARGET),)
