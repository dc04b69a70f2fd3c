"""The baseline: run the failing tests, show them to the model, let it look and patch, run them again.

Ends when the tests pass or the model says it is done, when the same tests keep failing, when tools keep failing, or by the
session's caps.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentbench.agents.base import AgentExit, AgentSetup
from agentbench.agents.conversation import Conversation, tool_specs
from agentbench.agents.failures import Failures, read_failures
from agentbench.agents.packing import Reader, pack
from agentbench.agents.prompt import Prompt, load_prompt
from agentbench.core.errors import InputError
from agentbench.core.reasons import Observability, TerminationCode
from agentbench.models.protocol import Model, Reply, system, user
from agentbench.models.text import find_patch
from agentbench.tools.session import Session

SAME_FAILURE = 4
"""Test runs in a row that may fail in the same way before the agent gives up."""
SILENT = 3
"""Answers in a row with neither a call nor a patch nor a passing test that are borne."""
DEFAULT_CONTEXT_TOKENS = 8_000


@dataclass(slots=True)
class Progress:
    """How often the same tests failed in a row."""

    signature: tuple[str, ...] = ()
    times: int = 0

    def saw(self, failures: Failures) -> bool:
        """Whether it is time to give up."""
        same = failures.signature == self.signature
        self.signature, self.times = failures.signature, self.times + 1 if same else 1
        return self.times >= SAME_FAILURE


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

    def run(self, session: Session) -> AgentExit:
        failures = self._test(session)
        talk = Conversation(self._model, session, tool_specs(session.tools))
        talk.messages += [system(self.prompt.text), user(self._opening(session, failures))]
        progress, silent = Progress(), 0
        while True:
            reply = talk.ask()
            patched = self._patched(session, talk, reply)
            if reply.tool_calls and not patched:
                silent = 0
                continue
            found = self._test(session)
            if found is None:
                return self._done(session, reply, tested=self._test_command is not None)
            if progress.saw(found):
                why = f"the same tests failed {progress.times} times in a row"
                return AgentExit(TerminationCode.NO_PROGRESS, why, (session.last_event,))
            silent = 0 if patched else silent + 1
            if silent >= SILENT:
                why = "the model stopped while tests fail"
                return AgentExit(TerminationCode.AGENT_STOPPED, why, (session.last_event,))
            talk.messages.append(user(f"The tests still fail.\n\n{found.text}"))

    def _opening(self, session: Session, failures: Failures | None) -> str:
        parts = [session.briefing.text]
        if failures is not None:
            parts.append(f"## What the tests say now\n\n{failures.text}")
            if self._context_tokens:
                parts.append(pack(failures, _reader(session), self._context_tokens))
        return "\n\n".join(part for part in parts if part)

    def _patched(self, session: Session, talk: Conversation, reply: Reply) -> bool:
        """Whether this turn changed something: by a call, or by a diff in plain words."""
        if any(call.name == "apply_patch" for call in reply.tool_calls):
            return True
        patch = None if reply.tool_calls else find_patch(reply.text)
        if patch is None:
            return False
        result = session.apply_patch(patch)
        talk.note(result)
        if not result.ok:
            talk.messages.append(user(f"The patch was refused: {result.error_message}"))
        return True

    def _test(self, session: Session) -> Failures | None:
        """The failures of the project's own tests; None when they pass or there is no known way to run them."""
        if self._test_command is None or "run" not in session.tools:
            return None
        result = session.run(self._test_command)
        if result.ok:
            return None
        return read_failures(f"{result.stdout}\n{result.stderr}" if result.stderr else result.stdout)

    def _done(self, session: Session, reply: Reply, *, tested: bool) -> AgentExit:
        why = "the tests pass" if tested else f"the model is done: {reply.text[:200]}"
        return AgentExit(TerminationCode.AGENT_STOPPED, why, (session.last_event,) if session.last_event else ())


def _reader(session: Session) -> Reader:
    def read(path: str) -> str | None:
        result = session.read_file(path)
        return result.stdout if result.ok else None

    return read


def make(setup: AgentSetup) -> LlmAgent:
    """
    Raises:
        InputError: no model was given.
    """
    return _make("llm_v0", setup, 0)


def make_context_packer(setup: AgentSetup) -> LlmAgent:
    """The same agent with the files that the failing tests point at already in its first message."""
    tokens = setup.options.get("context_tokens", str(DEFAULT_CONTEXT_TOKENS))
    if not tokens.isdigit() or not int(tokens):
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
    if setup.model is None:
        msg = f"the agent '{name}' needs a model"
        raise InputError(msg, remedy="give one with --model, or in the variant file")
    return setup.model
