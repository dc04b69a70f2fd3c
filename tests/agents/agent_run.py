"""Run built-in agents with a scripted model in real sandboxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentbench.agents.base import AgentExit, AgentSetup, run_session
from agentbench.agents.registry import make_agent
from agentbench.contract.schema import DEFAULT_GENERATED
from agentbench.models.client.chat_model import ChatModel
from agentbench.models.scripted import ModelScript, ScriptedUpstream
from agentbench.models.upstream import ModelRequest, ModelResponse
from agentbench.tools.rules import Rules
from agentbench.workspace.diff.extract import extract
from tests.tools.project_sandboxes import ProjectSandboxes
from tests.tools.recorded_session import RecordedSession

TESTS = """python3 - <<'END'
import sys
sys.path.insert(0, "src")
from calc import median
if median([1, 2, 9]) != 2:
    print("src/calc.py:6: AssertionError")
    print("FAILED tests/test_calc.py::test_median - wrong")
    sys.exit(1)
END"""

RIGHT = """\
--- a/src/calc.py
+++ b/src/calc.py
@@ -5,2 +5,2 @@
 def median(values):
-    return 0
+    return sorted(values)[len(values) // 2]
"""


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def patch(diff: str) -> dict[str, Any]:
    return call("apply_patch", unified_diff=diff)


def harmless(number: int) -> dict[str, Any]:
    """A patch that applies and fixes nothing."""
    return patch(f"--- /dev/null\n+++ b/note{number}.txt\n@@ -0,0 +1 @@\n+{number}\n")


def fenced(diff: str) -> dict[str, Any]:
    return {"text": f"This will do:\n\n```diff\n{diff}```\n"}


@dataclass
class RecordingUpstream:
    """Forwards requests and records their bodies."""

    upstream: ScriptedUpstream
    bodies: list[dict[str, Any]] = field(default_factory=list)

    @property
    def dialects(self) -> Any:
        return self.upstream.dialects

    def send(self, call: ModelRequest) -> ModelResponse:
        self.bodies.append(dict(call.body))
        return self.upstream.send(call)


@dataclass
class AgentRun:
    ended: AgentExit
    recorded: RecordedSession
    patch: bytes
    requests: list[dict[str, Any]]

    def last_answers(self) -> list[str]:
        """Return the tool results that the last request answers with."""
        results: list[str] = []
        for message in reversed(self.requests[-1]["messages"]):
            if message["role"] != "tool":
                break
            results.append(message["content"])
        return results[::-1]


def play(
    sandboxes: ProjectSandboxes,
    record: Path,
    agent: str,
    answers: Sequence[Mapping[str, Any]],
    *,
    tests: str | None = TESTS,
    rules: Rules | None = None,
    after: str = "fail",
) -> AgentRun:
    script = ModelScript.model_validate({"answers": list(answers), "after": after})
    upstream = RecordingUpstream(ScriptedUpstream(script))
    setup = AgentSetup("t", record, model=ChatModel("scripted", upstream), test_command=tests)
    with sandboxes.open(record, rules) as recorded:
        ended = run_session(make_agent(agent, setup), recorded.session)
        sandbox = recorded.session._context.sandbox
        sandbox.kill_processes()
        extracted = extract(sandboxes.prepared.base_tree, sandbox.tree(), generated=DEFAULT_GENERATED)
        return AgentRun(ended, recorded, extracted.patch, upstream.bodies)
