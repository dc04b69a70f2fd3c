"""An agent that applies the task's reference solution. It must pass every valid task.

A patch is applied by the harness and is never a file in the sandbox. A script runs there from a temporary folder outside the
workspace, which is removed at once.
"""

from __future__ import annotations

from pathlib import Path

from agentbench.agents.base import AgentExit, AgentSetup
from agentbench.contract.reference_file import interpreter, is_patch
from agentbench.core.errors import InputError
from agentbench.core.reasons import Observability, TerminationCode
from agentbench.tools.program_run import AgentProgram
from agentbench.tools.session import Session

MAX_REFERENCE = 64 * 1024 * 1024

_SCRIPT = """folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cat > "$folder/reference" && {interpreter} "$folder/reference" </dev/null"""


class ReferenceAgent:
    name = "reference"
    observability = Observability.TOOLS

    def __init__(self, content: bytes, script: AgentProgram | None = None) -> None:
        self._content = content
        self._script = script
        """The program that makes the change; None if the content is a patch."""

    def run(self, session: Session) -> AgentExit:
        result = session.run_program(self._script) if self._script else session.submit_patch(self._content)
        if result.ok:
            return AgentExit(TerminationCode.AGENT_STOPPED, "reference applied", (session.last_event,))
        why = f"reference did not apply: {result.error_message}"
        return AgentExit(TerminationCode.AGENT_CRASHED, why, (session.last_event,))

    def go_on(self, session: Session, message: str) -> AgentExit:
        return AgentExit(TerminationCode.AGENT_STOPPED, "reference already applied", (session.last_event,))


def make(setup: AgentSetup) -> ReferenceAgent:
    """Create the agent.

    Raises:
        InputError: the task has no reference, or it cannot be read.
    """
    if setup.reference is None:
        msg = f"task '{setup.task_id}' has no reference solution for agent 'reference'"
        raise InputError(msg, remedy="set `reference: reference.patch` in task.yaml")
    content = _content(setup.reference)
    if is_patch(setup.reference):
        return ReferenceAgent(content)
    command = _SCRIPT.format(interpreter=interpreter(setup.reference))
    return ReferenceAgent(content, AgentProgram("reference_script", command, stdin=content, of_task=True))


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_REFERENCE + 1)
    except OSError as error:
        raise InputError(f"cannot read reference {path}: {error.strerror}") from error
    if len(content) > MAX_REFERENCE:
        raise InputError(f"reference {path} is larger than {MAX_REFERENCE} bytes")
    return content
