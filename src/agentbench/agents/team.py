"""Sub-agents: a router decides who works next; searcher, patcher and tester hand over typed results.

Every hand-over is a delegation event, so that the graph of who asked whom can be drawn from the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from agentbench.agents.base import AgentExit, AgentSetup
from agentbench.agents.conversation import Conversation, tool_specs
from agentbench.agents.failures import Failures, read_failures
from agentbench.agents.llm_v0 import Progress, require_model
from agentbench.agents.prompt import load_prompt
from agentbench.core.reasons import Observability, TerminationCode
from agentbench.models.protocol import Model, system, user
from agentbench.models.text import find_object, find_patch
from agentbench.tools.session import Session

MAX_ROUNDS = 12
MAX_UNREADABLE = 3
READING = ("list_files", "search", "read_file")


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
        prompts = (load_prompt(name).version for name in ("router_v1", "searcher_v1", "patcher_v1", "tester_v1"))
        self.prompt_version = " ".join(prompts)
        self._model = model
        self._test_command = test_command

    def run(self, session: Session) -> AgentExit:
        board = [session.briefing.text]
        failures = self._tests(session)
        board.append(_told("tests", failures.text if failures else "pass, or cannot be run"))
        progress, unreadable = Progress(), 0
        for _ in range(MAX_ROUNDS):
            try:
                route = self._ask(session, "router", "router_v1", board, Route, tools=())
                unreadable = 0
            except Unreadable as problem:
                unreadable += 1
                if unreadable >= MAX_UNREADABLE:
                    return AgentExit(TerminationCode.NO_PROGRESS, f"the router: {problem}", (session.last_event,))
                board.append(_told("router", f"the last answer could not be read: {problem}"))
                continue
            if route.next == "stop":
                return AgentExit(TerminationCode.AGENT_STOPPED, f"the router: {route.why}", (session.last_event,))
            self._delegate(session, route, board)
            if route.next != "search":
                failures = self._tests(session)
                if failures is None and self._test_command is not None:
                    return AgentExit(TerminationCode.AGENT_STOPPED, "the tests pass", (session.last_event,))
                if failures is not None and progress.saw(failures):
                    why = f"the same tests failed {progress.times} times in a row"
                    return AgentExit(TerminationCode.NO_PROGRESS, why, (session.last_event,))
        return AgentExit(TerminationCode.NO_PROGRESS, f"{MAX_ROUNDS} rounds without a solution", (session.last_event,))

    def _delegate(self, session: Session, route: Route, board: list[str]) -> None:
        """Let the chosen specialist work and put what it hands over on the board."""
        task = [*board, _told("your task", route.task)]
        try:
            if route.next == "search":
                found = self._ask(session, "searcher", "searcher_v1", task, Findings, tools=READING)
                board.append(_told("searcher", found.model_dump_json()))
            elif route.next == "patch":
                board.append(_told("patcher", self._patch(session, task).model_dump_json()))
            else:
                failures = self._tests(session)
                output = failures.text if failures else "all tests pass"
                advice = self._ask(session, "tester", "tester_v1", [*task, output], Advice, tools=())
                board.append(_told("tester", advice.model_dump_json()))
        except Unreadable as problem:
            board.append(_told(route.next, f"the answer could not be used: {problem}"))

    def _patch(self, session: Session, task: Sequence[str]) -> Proposal:
        text = self._words(session, "patcher", "patcher_v1", task, ("read_file",))
        diff = find_patch(text)
        if diff is None:
            raise Unreadable("there is no diff in it")
        result = session.apply_patch(diff)
        return Proposal(diff=diff, applied=result.ok, problem=result.error_message or "")

    def _ask(
        self, session: Session, role: str, prompt: str, task: Sequence[str], form: type[H], *, tools: Sequence[str]
    ) -> H:
        text = self._words(session, role, prompt, task, tools)
        try:
            return form.model_validate(find_object(text))
        except ValueError as error:
            first = error.errors()[0] if isinstance(error, ValidationError) else None
            why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}" if first else str(error)
            raise Unreadable(why) from None

    def _words(self, session: Session, role: str, prompt: str, task: Sequence[str], tools: Sequence[str]) -> str:
        session.delegate("subagents" if role == "router" else "router", role, role, "\n\n".join(task)[-4000:])
        talk = Conversation(self._model, session, tool_specs(session.tools, tools))
        talk.messages += [system(load_prompt(prompt).text), user("\n\n".join(task))]
        return talk.until_words().text

    def _tests(self, session: Session) -> Failures | None:
        if self._test_command is None or "run" not in session.tools:
            return None
        result = session.run(self._test_command)
        return None if result.ok else read_failures(f"{result.stdout}\n{result.stderr}")


def _told(who: str, what: str) -> str:
    return f"## {who}\n\n{what}"


def make(setup: AgentSetup) -> Team:
    """
    Raises:
        InputError: no model was given.
    """
    return Team(require_model("subagents", setup), test_command=setup.test_command)
