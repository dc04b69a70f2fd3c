"""An agent that runs a script: a YAML file of tool calls, made in order whatever they return.

`steps` are the calls of the first turn; `turns` has one list of steps for each further message of the user.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue, ValidationError

from agentbench.agents.base import AgentExit, AgentSetup
from agentbench.contract.problem import InvalidFileError, KeyPath, Problem, did_you_mean
from agentbench.contract.yaml_document import Document, Value, read_document
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.reasons import Observability, TerminationCode
from agentbench.tools.definition import problem_text
from agentbench.tools.registry import TOOLS
from agentbench.tools.session import Session

DEFAULT_SCRIPT = "scripted.yaml"
KEYS = ("steps", "turns")


@dataclass(frozen=True, slots=True)
class Step:
    tool: str
    arguments: Mapping[str, JsonValue]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Script:
    steps: tuple[Step, ...]
    turns: tuple[tuple[Step, ...], ...] = ()


class ScriptedAgent:
    name = "scripted"
    observability = Observability.TOOLS

    def __init__(self, script: Script) -> None:
        self._steps = script.steps
        self._turns = iter(script.turns)

    def run(self, session: Session) -> AgentExit:
        return _follow(session, self._steps)

    def go_on(self, session: Session, message: str) -> AgentExit:
        return _follow(session, next(self._turns, ()))


def _follow(session: Session, steps: tuple[Step, ...]) -> AgentExit:
    failed = 0
    for step in steps:
        session.turn()
        failed += not session.call(step.tool, dict(step.arguments)).ok
    rationale = f"script finished: {len(steps)} calls, {failed} with an error"
    return AgentExit(TerminationCode.AGENT_STOPPED, rationale, (session.last_event,) if steps else ())


def make(setup: AgentSetup) -> ScriptedAgent:
    """Create the agent.

    Raises:
        InputError: there is no script.
        ContractError: the script is invalid; lists all problems with their lines.
    """
    path = setup.script
    if path is None and (option := setup.options.get("script")):
        path = Path(option.replace("{task}", setup.task_id))
    path = path or setup.task_folder / DEFAULT_SCRIPT
    if not path.exists() and path == setup.script:
        raise InputError(f"--script {path} does not exist")
    if not path.exists():
        msg = f"no script for agent 'scripted' and task '{setup.task_id}': {path} does not exist"
        raise InputError(msg, remedy="set one with --script, or put scripted.yaml beside task.yaml")
    return ScriptedAgent(load_script(path))


def load_script(path: Path) -> Script:
    """Read a script.

    Raises:
        ContractError: it is invalid; lists all problems with their lines.
    """
    document = read_document(path)
    problems = [
        document.problem((key,), f"unknown key; expected `steps`{did_you_mean(key, KEYS)}")
        for key in document.value
        if key not in KEYS
    ]
    steps = _steps(document, ("steps",), document.value.get("steps"), problems)
    turns = document.value.get("turns", [])
    if not isinstance(turns, list):
        problems.append(
            document.problem(("turns",), "expected a list of lists of tool calls, one for each further turn")
        )
        turns = []
    further = tuple(_steps(document, ("turns", index), raw, problems) for index, raw in enumerate(turns))
    if problems:
        raise InvalidFileError(document.file, problems)
    return Script(steps, further)


def _steps(document: Document, place: KeyPath, listed: Value, problems: list[Problem]) -> tuple[Step, ...]:
    """Read the calls of one turn, adding problems to `problems`."""
    if not isinstance(listed, list):
        problems.append(document.problem(place, "expected a list of tool calls"))
        return ()
    steps: list[Step] = []
    for index, raw in enumerate(listed):
        step = _step(document, (*place, index), raw)
        if isinstance(step, Step):
            steps.append(step)
        else:
            problems += step
    return tuple(steps)


def _step(document: Document, place: KeyPath, raw: Value) -> Step | list[Problem]:
    """Read one call: a mapping of the tool's name to its arguments, with an optional `note`."""
    if not isinstance(raw, dict):
        return [
            document.problem(place, f"expected a tool call such as `run: {{command: …}}`; tools: {', '.join(TOOLS)}")
        ]
    note = raw.get("note", "")
    names = [key for key in raw if key != "note"]
    problems = [
        document.problem((*place, name), f"unknown tool; tools: {', '.join(TOOLS)}{did_you_mean(name, TOOLS)}")
        for name in names
        if name not in TOOLS
    ]
    if len(names) != 1:
        problems.append(document.problem(place, f"expected exactly one tool per step, found {len(names)}"))
    if not isinstance(note, str):
        problems.append(document.problem((*place, "note"), "expected text"))
    if problems or not isinstance(note, str):
        return problems
    name, arguments = names[0], raw[names[0]]
    if not isinstance(arguments, dict):
        return [document.problem((*place, name), "expected the tool's arguments as a mapping")]
    model = TOOLS[name].arguments
    try:
        model.model_validate(arguments)
    except ValidationError as error:
        return [
            document.problem((*place, name, *detail["loc"]), problem_text(model, (), detail["msg"]))
            for detail in error.errors(include_url=False)
        ]
    return Step(name, dict(arguments), note)
