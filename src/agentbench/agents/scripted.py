"""An agent that follows a script: a YAML file of tool calls, carried out in order whatever they answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue, ValidationError

from agentbench.agents.base import AgentExit, AgentSetup
from agentbench.contract.document import Document, Value, read_document
from agentbench.contract.problem import KeyPath, Problem, did_you_mean, refuse
from agentbench.core.errors import InputError
from agentbench.core.reasons import Observability, TerminationCode
from agentbench.tools.definition import problem_text
from agentbench.tools.registry import TOOLS
from agentbench.tools.session import Session

DEFAULT_SCRIPT = "scripted.yaml"


@dataclass(frozen=True, slots=True)
class Step:
    tool: str
    arguments: Mapping[str, JsonValue]
    note: str = ""


class ScriptedAgent:
    name = "scripted"
    observability = Observability.TOOLS

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self._steps = steps

    def run(self, session: Session) -> AgentExit:
        failed = 0
        for step in self._steps:
            session.turn()
            failed += not session.call(step.tool, dict(step.arguments)).ok
        rationale = f"the script is done: {len(self._steps)} calls, {failed} of them with an error"
        return AgentExit(TerminationCode.AGENT_STOPPED, rationale, (session.last_event,) if self._steps else ())


def make(setup: AgentSetup) -> ScriptedAgent:
    """
    Raises:
        InputError: there is no script.
        ContractError: the script is wrong; all its problems with their lines.
    """
    path = setup.script
    if path is None and (option := setup.options.get("script")):
        path = Path(option.replace("{task}", setup.task_id))
    path = path or setup.task_folder / DEFAULT_SCRIPT
    if not path.exists():
        msg = f"the agent 'scripted' needs a script for task '{setup.task_id}': {path} does not exist"
        raise InputError(msg, remedy="give it with --script, or as scripted.yaml beside task.yaml")
    return ScriptedAgent(load_script(path))


def load_script(path: Path) -> tuple[Step, ...]:
    """
    Raises:
        ContractError: all problems of the file, each with its line.
    """
    document = read_document(path)
    problems = [
        document.problem((key,), f"unknown key; expected `steps`{did_you_mean(key, ['steps'])}")
        for key in document.value
        if key != "steps"
    ]
    listed = document.value.get("steps")
    if not isinstance(listed, list):
        problems.append(document.problem(("steps",), "expected a list of tool calls"))
        listed = []
    steps: list[Step] = []
    for index, raw in enumerate(listed):
        step = _step(document, ("steps", index), raw)
        if isinstance(step, Step):
            steps.append(step)
        else:
            problems += step
    if problems:
        raise refuse(document.file, problems)
    return tuple(steps)


def _step(document: Document, place: KeyPath, raw: Value) -> Step | list[Problem]:
    """One call: a mapping of the tool's name to its arguments, and a `note` if you like."""
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
    return _call(document, place, names[0], raw[names[0]]) or Step(names[0], _arguments(raw[names[0]]), note)


def _call(document: Document, place: KeyPath, name: str, arguments: Value) -> list[Problem]:
    """Problems of the arguments, by the tool's own definition."""
    if not isinstance(arguments, dict):
        return [document.problem((*place, name), "expected the tool's arguments as a mapping")]
    model = TOOLS[name].arguments
    try:
        model.model_validate(arguments)
    except ValidationError as error:
        return [
            document.problem((*place, name, *one["loc"]), problem_text(model, (), one["msg"]))
            for one in error.errors(include_url=False)
        ]
    return []


def _arguments(value: Value) -> dict[str, JsonValue]:
    return dict(value) if isinstance(value, dict) else {}
