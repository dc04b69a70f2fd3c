"""The baseline agent: run the failing tests, show them to the model, let it read and patch, run them again.

Ends when the tests pass, the model says it is done, the same tests or tools keep failing, or the session reaches a cap. If the
user has further messages, the model ends its turn itself: failing tests can belong to a later message.
"""

from __future__ import annotations

from agentbench.agents.base import AgentExit, AgentSetup, require_model, stopped
from agentbench.agents.context_packer import ISSUE_TITLE, list_project, pack
from agentbench.agents.conversation import Conversation, Turn, tool_specs
from agentbench.agents.prompt import Prompt, load_prompt
from agentbench.agents.stages import request_stage_for
from agentbench.agents.visible_tests import Progress, TestRun, read_failures, run_tests
from agentbench.core.errors import InputError
from agentbench.core.reasons import Observability
from agentbench.models.protocol import Model, system, user
from agentbench.models.reply_parsing import find_patch
from agentbench.tools.session import Session

SILENT = 3
"""Answers in a row with neither a tool call nor a patch after which the agent gives up, while tests fail."""
DEFAULT_CONTEXT_TOKENS = 8_000
_STAGE_MESSAGE = "You are in the stage '{}'. When you are ready, call request_stage for the stage '{}'."


class LlmAgent:
    """The agent `llm_v0`, or with a context budget `context_packer`."""

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
        self._conversation: Conversation | None = None

    def run(self, session: Session) -> AgentExit:
        first = run_tests(session, self._test_command)
        self._conversation = conversation = Conversation(self._model, session, tool_specs(session.tools))
        conversation.messages += [system(self.prompt.text), user(self._opening(session, first))]
        return self._turn(session, conversation, first)

    def go_on(self, session: Session, message: str) -> AgentExit:
        """Continue the conversation with the user's next message."""
        assert self._conversation is not None  # noqa: S101 - the first turn started it
        self._conversation.messages.append(user(message))
        return self._turn(session, self._conversation, run_tests(session, self._test_command))

    def _turn(self, session: Session, conversation: Conversation, first: TestRun) -> AgentExit:
        progress, silent = Progress(), 0
        while True:
            turn = conversation.ask()
            patched = self._patched(session, conversation, turn)
            if turn.calls and not patched:
                silent = 0
                continue
            if session.turns_left and not turn.calls and patched is None:
                return stopped(session, f"model ended its turn: {turn.reply.text[:200]}")
            tests = self._run_tests(session, turn)
            # If the tests passed before any change, passing now proves nothing: the model decides when it is done.
            if tests.passed and (first.failures is not None or not turn.calls):
                return stopped(session, "tests pass")
            if not (tests.known or tests.later) and not turn.calls and patched is not False:
                return stopped(session, f"model is done: {turn.reply.text[:200]}")
            if progress.is_stuck(tests):
                return stopped(session, f"gave up: {progress.why}")
            silent = 0 if patched or turn.calls else silent + 1
            if silent >= SILENT:
                return stopped(
                    session, f"gave up: {silent} answers in a row with neither a tool call nor a patch that applies"
                )
            if tests.failures is not None:
                conversation.messages.append(user(f"The tests still fail.\n\n{tests.text}"))
            elif tests.later and not turn.calls and patched is not False:
                conversation.messages.append(user(_STAGE_MESSAGE.format(session.stage, session.next_stage)))

    def _run_tests(self, session: Session, turn: Turn) -> TestRun:
        """Run the tests. If the model made its change without asking for the stage they need, ask for it."""
        if self._test_command and not turn.calls and session.allows("apply_patch"):
            request_stage_for("run", session, "the change is made: run the tests")
        return run_tests(session, self._test_command)

    def _opening(self, session: Session, first: TestRun) -> str:
        parts = [session.briefing.text]
        if first.failures is not None:
            parts.append(f"## What the tests say now\n\n{first.text}")
            if self._context_tokens:
                parts.append(pack(first.failures, list_project(session), self._context_tokens))
        elif first.later and self._context_tokens and session.allows("list_files"):
            issue = read_failures(session.briefing.parts.get("issue", ""))
            parts.append(pack(issue, list_project(session), self._context_tokens, ISSUE_TITLE))
        return "\n\n".join(part for part in parts if part)

    def _patched(self, session: Session, conversation: Conversation, turn: Turn) -> bool | None:
        """Return whether this turn applied a patch, by a tool call or as a diff in its text. None: it did not try to."""
        if turn.calls:
            tried = [result.ok for name, result in turn.calls if name == "apply_patch"]
            return any(tried) if tried else None
        patch = find_patch(turn.reply.text)
        if patch is None:
            return None
        request_stage_for("apply_patch", session, turn.reply.text)
        result = session.apply_patch(patch)
        conversation.count_faults(result)
        if not result.ok:
            conversation.messages.append(user(f"The patch was refused: {result.error_message}"))
        return result.ok


def make(setup: AgentSetup, name: str = "llm_v0", context_tokens: int = 0) -> LlmAgent:
    """Create the agent.

    Raises:
        InputError: no model was given.
    """
    model, prompt = require_model(name, setup), load_prompt(setup.prompt or "system_v1")
    return LlmAgent(name, model, prompt, test_command=setup.test_command, context_tokens=context_tokens)


def make_context_packer(setup: AgentSetup) -> LlmAgent:
    """Create the agent whose first message includes the files that the failing tests point at."""
    tokens = setup.options.get("context_tokens", str(DEFAULT_CONTEXT_TOKENS))
    if not (tokens.isascii() and tokens.isdigit() and int(tokens)):
        raise InputError(f"options.context_tokens: expected a number of tokens, got {tokens!r}")
    return make(setup, "context_packer", int(tokens))
