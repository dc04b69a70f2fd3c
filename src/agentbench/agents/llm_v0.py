"""The baseline: run the failing tests, show them to the model, let it look and patch, run them again.

Ends when the tests pass or the model says it is done, when the same tests keep failing, when tools keep failing, or by the
session's caps. While further messages of the user are to come, the model's own word ends a turn: the tests may be of later ones.
"""

from __future__ import annotations

from agentbench.agents.base import AgentExit, AgentSetup, stopped
from agentbench.agents.context_packer import pack
from agentbench.agents.conversation import Conversation, Turn, tool_specs
from agentbench.agents.project_files import look_at
from agentbench.agents.prompt import Prompt, load_prompt
from agentbench.agents.visible_tests import Progress, TestRun, run_tests
from agentbench.core.errors import InputError
from agentbench.core.reasons import Observability
from agentbench.models.protocol import Model, system, user
from agentbench.models.reply_parsing import find_patch
from agentbench.tools.session import Session

SILENT = 3
"""Answers in a row with neither a call nor a patch that are borne while tests fail."""
DEFAULT_CONTEXT_TOKENS = 8_000


class LlmAgent:
    """`llm_v0`, and with a context budget `context_packer`."""

    observability = Observability.TOOLS

    def __init__(
        self, name: str, model: Model, prompt: Prompt, *, test_command: str | None, context_tokens: int = 0
    ) -> None:
        self.name = name
        self.prompt = prompt
        self.prompt_version = prompt.version
        self._model = model
        self._test_command = test_command
        self._context_tokens = context_tokens
        self._talk: Conversation | None = None

    def run(self, session: Session) -> AgentExit:
        first = run_tests(session, self._test_command)
        self._talk = talk = Conversation(self._model, session, tool_specs(session.tools))
        talk.messages += [system(self.prompt.text), user(self._opening(session, first))]
        return self._turn(session, talk, first)

    def go_on(self, session: Session, message: str) -> AgentExit:
        """The same conversation, with what the user says next."""
        assert self._talk is not None  # noqa: S101 - the first turn began it
        self._talk.messages.append(user(message))
        return self._turn(session, self._talk, run_tests(session, self._test_command))

    def _turn(self, session: Session, talk: Conversation, first: TestRun) -> AgentExit:
        progress, silent = Progress(), 0
        while True:
            turn = talk.ask()
            patched = self._patched(session, talk, turn)
            if turn.calls and not patched:
                silent = 0
                continue
            if session.turns_left and not turn.calls and patched is None:
                return stopped(session, f"the model ends its turn: {turn.reply.text[:200]}")
            found = run_tests(session, self._test_command)
            # Tests that passed before anything was done prove nothing by passing now: then the model says when it is done.
            if found.passed and (first.failures is not None or not turn.calls):
                return stopped(session, "the tests pass")
            if not found.known and not turn.calls and patched is not False:
                return stopped(session, f"the model is done: {turn.reply.text[:200]}")
            if progress.saw(found):
                return stopped(session, f"gives up: {progress.why}")
            silent = 0 if patched or turn.calls else silent + 1
            if silent >= SILENT:
                return stopped(session, f"{silent} answers in a row with neither a call nor a patch that applies")
            if found.failures is not None:
                talk.messages.append(user(f"The tests still fail.\n\n{found.text}"))

    def _opening(self, session: Session, first: TestRun) -> str:
        parts = [session.briefing.text]
        if first.failures is not None:
            parts.append(f"## What the tests say now\n\n{first.text}")
            if self._context_tokens:
                parts.append(pack(first.failures, look_at(session), self._context_tokens))
        return "\n\n".join(part for part in parts if part)

    def _patched(self, session: Session, talk: Conversation, turn: Turn) -> bool | None:
        """Whether this turn changed something, by a call or by a diff in plain words. None: it did not try to."""
        if turn.calls:
            tried = [done.ok for name, done in turn.calls if name == "apply_patch"]
            return any(tried) if tried else None
        patch = find_patch(turn.reply.text)
        if patch is None:
            return None
        result = session.apply_patch(patch)
        talk.note(result)
        if not result.ok:
            talk.messages.append(user(f"The patch was refused: {result.error_message}"))
        return result.ok


def make(setup: AgentSetup) -> LlmAgent:
    """
    Raises:
        InputError: no model was given.
    """
    return _make("llm_v0", setup, 0)


def make_context_packer(setup: AgentSetup) -> LlmAgent:
    """The same agent with the files that the failing tests point at already in its first message."""
    tokens = setup.options.get("context_tokens", str(DEFAULT_CONTEXT_TOKENS))
    if not (tokens.isascii() and tokens.isdigit() and int(tokens)):
        msg = f"options.context_tokens: expected a number of tokens, got {tokens!r}"
        raise InputError(msg)
    return _make("context_packer", setup, int(tokens))


def _make(name: str, setup: AgentSetup, context_tokens: int) -> LlmAgent:
    return LlmAgent(
        name,
        require_model(name, setup),
        load_prompt(setup.prompt or "system_v1"),
        test_command=setup.test_command,
        context_tokens=context_tokens,
    )


def require_model(name: str, setup: AgentSetup) -> Model:
    """
    Raises:
        InputError: no model was given.
    """
    if setup.model is None:
        msg = f"the agent '{name}' needs a model"
        raise InputError(msg, remedy="give one with --model, or in the variant file")
    return setup.model
