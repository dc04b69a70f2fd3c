"""An agent that uses its model in four roles: a router chooses between searcher, patcher and tester.

Every delegation is an event, so that the log shows which role asked which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from agentbench.agents.base import AgentExit, AgentSetup, require_model, stopped
from agentbench.agents.conversation import Conversation, tool_specs
from agentbench.agents.prompt import load_prompt
from agentbench.agents.stages import request_stage_for
from agentbench.agents.visible_tests import Progress, TestRun, run_tests
from agentbench.core.reasons import Observability
from agentbench.models.protocol import Model, system, user
from agentbench.models.reply_parsing import find_object, find_patch
from agentbench.tools.session import Session

MAX_ROUNDS = 12
MAX_UNREADABLE = 3
MAX_ENTRY = 12_000

Role = Literal["router", "searcher", "patcher", "tester"]
PROMPTS: Mapping[Role, str] = {role: f"{role}_v1" for role in get_args(Role)}
TOOLS: Mapping[Role, tuple[str, ...]] = {
    "router": (),
    "searcher": ("list_files", "search", "read_file"),
    "patcher": ("read_file",),
    "tester": (),
}


class Handover(BaseModel):
    """Base of the results that roles return. Extra keys are ignored, since models add their own."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Route(Handover):
    next: Literal["search", "patch", "test", "stop"]
    task: str = ""
    why: str = ""


class FoundFile(Handover):
    path: str
    why: str = ""
    snippet: str = ""


class Findings(Handover):
    files: tuple[FoundFile, ...] = ()
    summary: str = ""


class Proposal(Handover):
    diff: str
    applied: bool = False
    problem: str = ""


class Advice(Handover):
    passed: bool
    recommendation: str = ""
    suspects: tuple[str, ...] = ()


H = TypeVar("H", bound=Handover)


class Unreadable(Exception):
    """A role did not answer in the expected form."""


class SubagentsAgent:
    """The agent `subagents`."""

    name = "subagents"
    observability = Observability.TOOLS

    def __init__(self, model: Model, *, test_command: str | None) -> None:
        self.prompt_version = " ".join(load_prompt(name).version for name in PROMPTS.values())
        self._model = model
        self._test_command = test_command
        self._board: list[str] = []

    def run(self, session: Session) -> AgentExit:
        return self._turn(session, session.briefing.text)

    def go_on(self, session: Session, message: str) -> AgentExit:
        """Continue on the same board with the user's next message."""
        return self._turn(session, _entry("user", message))

    def _turn(self, session: Session, message: str) -> AgentExit:
        first = run_tests(session, self._test_command)
        board = self._board
        board += [message, _entry("tests", first.text)]
        progress, unreadable = Progress(), 0
        for number in range(1, MAX_ROUNDS + 1):
            try:
                route = self._ask(session, "router", f"round {number}: who works next?", board, Route)
                unreadable = 0
            except Unreadable as problem:
                unreadable += 1
                if unreadable >= MAX_UNREADABLE:
                    return stopped(
                        session, f"gave up: {unreadable} unreadable answers in a row; last problem: {problem}"
                    )
                board.append(_entry("router", f"the last answer could not be read: {problem}"))
                continue
            if route.next == "stop":
                return stopped(session, f"router stopped: {route.why}")
            tests = self._delegate(session, route, board)
            if tests is None:
                continue
            # If the tests passed before any change, passing now proves nothing: the router decides when to stop.
            if tests.passed and first.failures is not None:
                return stopped(session, "tests pass")
            if progress.is_stuck(tests):
                return stopped(session, f"gave up: {progress.why}")
        return stopped(session, f"gave up: {MAX_ROUNDS} rounds without a solution")

    def _delegate(self, session: Session, route: Route, board: list[str]) -> TestRun | None:
        """Run the chosen role and put its result on the board. Return the test run, if there was one."""
        try:
            if route.next == "search":
                findings = self._ask(session, "searcher", route.task, board, Findings)
                board.append(_entry("searcher", findings.model_dump_json()))
                return None
            if route.next == "patch":
                proposal = self._patch(session, route.task, board)
                board.append(_entry("patcher", proposal.model_dump_json()))
                return self._run_tests(session, route, board) if proposal.applied else None
            tests = self._run_tests(session, route, board)
            if not tests.passed:
                advice = self._ask(session, "tester", route.task, board, Advice)
                board.append(_entry("tester", advice.model_dump_json()))
        except Unreadable as problem:
            board.append(_entry(route.next, f"the answer could not be used: {problem}"))
            return None
        return tests

    def _run_tests(self, session: Session, route: Route, board: list[str]) -> TestRun:
        if self._test_command is not None:
            request_stage_for("run", session, route.task or route.why or "run the tests")
        tests = run_tests(session, self._test_command)
        board.append(_entry("tests", tests.text))
        return tests

    def _patch(self, session: Session, task: str, board: Sequence[str]) -> Proposal:
        diff = find_patch(self._ask_text(session, "patcher", task, board))
        if diff is None:
            raise Unreadable("there is no diff in it")
        request_stage_for("apply_patch", session, task or diff)
        result = session.apply_patch(diff)
        return Proposal(diff=diff, applied=result.ok, problem=result.error_message or "")

    def _ask(self, session: Session, role: Role, task: str, board: Sequence[str], form: type[H]) -> H:
        text = self._ask_text(session, role, task, board)
        try:
            return form.model_validate(find_object(text))
        except ValueError as error:
            first = error.errors()[0] if isinstance(error, ValidationError) else None
            why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}" if first else str(error)
            raise Unreadable(why) from None

    def _ask_text(self, session: Session, role: Role, task: str, board: Sequence[str]) -> str:
        session.delegate(self.name if role == "router" else "router", role, role, task)
        conversation = Conversation(self._model, session, tool_specs(session.tools, TOOLS[role]))
        message = user("\n\n".join([*board, _entry("your task", task)]))
        conversation.messages += [system(load_prompt(PROMPTS[role]).text), message]
        return conversation.ask_until_text()


def _entry(author: str, text: str) -> str:
    """Format an entry of the board. Long text keeps only its two ends, since every role reads the whole board."""
    if len(text) > MAX_ENTRY:
        text = f"{text[: MAX_ENTRY // 2]}\n[… {len(text) - MAX_ENTRY} characters left out …]\n{text[-MAX_ENTRY // 2 :]}"
    return f"## {author}\n\n{text}"


def make(setup: AgentSetup) -> SubagentsAgent:
    """Create the agent.

    Raises:
        InputError: no model was given.
    """
    return SubagentsAgent(require_model("subagents", setup), test_command=setup.test_command)
