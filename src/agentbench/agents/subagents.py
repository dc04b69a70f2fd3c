"""Sub-agents: a router decides who works next; searcher, patcher and tester hand over typed results.

Every hand-over is a delegation event, so that the graph of who asked whom can be drawn from the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from agentbench.agents.base import AgentExit, AgentSetup, stopped
from agentbench.agents.conversation import Conversation, tool_specs
from agentbench.agents.llm_v0 import require_model
from agentbench.agents.prompt import load_prompt
from agentbench.agents.visible_tests import Progress, TestRun, run_tests
from agentbench.core.reasons import Observability
from agentbench.models.protocol import Model, system, user
from agentbench.models.reply_parsing import find_object, find_patch
from agentbench.tools.session import Session

MAX_ROUNDS = 12
MAX_UNREADABLE = 3
MAX_ENTRY = 12_000

Role = Literal["router", "searcher", "patcher", "tester"]
PROMPTS: Mapping[Role, str] = {
    "router": "router_v1",
    "searcher": "searcher_v1",
    "patcher": "patcher_v1",
    "tester": "tester_v1",
}
TOOLS: Mapping[Role, tuple[str, ...]] = {
    "router": (),
    "searcher": ("list_files", "search", "read_file"),
    "patcher": ("read_file",),
    "tester": (),
}


class Handover(BaseModel):
    """Base of what a specialist returns. Models add words of their own: what is not asked for is left aside."""

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
    """A specialist did not answer in the agreed form."""


class Team:
    """`subagents`."""

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
        """The same board, with what the user says next."""
        return self._turn(session, _told("user", message))

    def _turn(self, session: Session, message: str) -> AgentExit:
        first = run_tests(session, self._test_command)
        board = self._board
        board += [message, _told("tests", first.text)]
        progress, unreadable = Progress(), 0
        for number in range(1, MAX_ROUNDS + 1):
            try:
                route = self._ask(session, "router", f"round {number}: who works next?", board, Route)
                unreadable = 0
            except Unreadable as problem:
                unreadable += 1
                if unreadable >= MAX_UNREADABLE:
                    return stopped(
                        session, f"gives up: {unreadable} answers in a row could not be read, the last: {problem}"
                    )
                board.append(_told("router", f"the last answer could not be read: {problem}"))
                continue
            if route.next == "stop":
                return stopped(session, f"the router: {route.why}")
            found = self._delegate(session, route, board)
            if found is None:
                continue
            # Tests that passed before anything was done prove nothing by passing now: then the router says when to stop.
            if found.passed and first.failures is not None:
                return stopped(session, "the tests pass")
            if progress.saw(found):
                return stopped(session, f"gives up: {progress.why}")
        return stopped(session, f"gives up: {MAX_ROUNDS} rounds without a solution")

    def _delegate(self, session: Session, route: Route, board: list[str]) -> TestRun | None:
        """Let the chosen specialist work and put what it hands over on the board; the tests, if they were run."""
        try:
            if route.next == "search":
                found = self._ask(session, "searcher", route.task, board, Findings)
                board.append(_told("searcher", found.model_dump_json()))
                return None
            if route.next == "patch":
                proposal = self._patch(session, route.task, board)
                board.append(_told("patcher", proposal.model_dump_json()))
                return self._tested(session, board) if proposal.applied else None
            tests = self._tested(session, board)
            if not tests.passed:
                advice = self._ask(session, "tester", route.task, board, Advice)
                board.append(_told("tester", advice.model_dump_json()))
        except Unreadable as problem:
            board.append(_told(route.next, f"the answer could not be used: {problem}"))
            return None
        return tests

    def _tested(self, session: Session, board: list[str]) -> TestRun:
        tests = run_tests(session, self._test_command)
        board.append(_told("tests", tests.text))
        return tests

    def _patch(self, session: Session, task: str, board: Sequence[str]) -> Proposal:
        diff = find_patch(self._words(session, "patcher", task, board))
        if diff is None:
            msg = "there is no diff in it"
            raise Unreadable(msg)
        result = session.apply_patch(diff)
        return Proposal(diff=diff, applied=result.ok, problem=result.error_message or "")

    def _ask(self, session: Session, role: Role, task: str, board: Sequence[str], form: type[H]) -> H:
        text = self._words(session, role, task, board)
        try:
            return form.model_validate(find_object(text))
        except ValueError as error:
            first = error.errors()[0] if isinstance(error, ValidationError) else None
            why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}" if first else str(error)
            raise Unreadable(why) from None

    def _words(self, session: Session, role: Role, task: str, board: Sequence[str]) -> str:
        session.delegate(self.name if role == "router" else "router", role, role, task)
        talk = Conversation(self._model, session, tool_specs(session.tools, TOOLS[role]))
        told = user("\n\n".join([*board, _told("your task", task)]))
        talk.messages += [system(load_prompt(PROMPTS[role]).text), told]
        return talk.until_words()


def _told(who: str, what: str) -> str:
    """One entry of the board, bounded: every specialist reads all of it."""
    if len(what) > MAX_ENTRY:
        what = f"{what[: MAX_ENTRY // 2]}\n[… {len(what) - MAX_ENTRY} characters left out …]\n{what[-MAX_ENTRY // 2 :]}"
    return f"## {who}\n\n{what}"


def make(setup: AgentSetup) -> Team:
    """
    Raises:
        InputError: no model was given.
    """
    return Team(require_model("subagents", setup), test_command=setup.test_command)
