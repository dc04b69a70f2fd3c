"""Scripts are YAML files of tool calls; problems in them are reported with their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.agents.base import AgentSetup, run_session
from agentbench.agents.registry import make_agent
from agentbench.agents.scripted import load_script
from agentbench.core.errors import ContractError, InputError
from agentbench.core.reasons import TerminationCode
from agentbench.trace.events import ToolCallFinished, ToolCallStarted
from tests.tools.conftest import OpenSession
from tests.tools.recorded_session import fill

pytestmark = [pytest.mark.req("T-04a"), pytest.mark.component]

SCRIPT = """\
steps:
  - note: look around
    list_files: {}
  - apply_patch:
      unified_diff: |
        --- a/a
        +++ b/a
        @@ -1 +1 @@
        -1
        +2
  - read_file: {path: a}
  - read_file: {path: missing}
"""


def test_script_runs_to_its_end_despite_errors(open_session: OpenSession, workspace: Path, tmp_path: Path) -> None:
    fill(workspace, {"a": "1\n"})
    (tmp_path / "scripted.yaml").write_text(SCRIPT)
    recorded = open_session()
    ended = run_session(make_agent("scripted", AgentSetup("t", tmp_path)), recorded.session)
    assert ended.code is TerminationCode.AGENT_STOPPED
    assert ended.rationale == "script finished: 4 calls, 1 with an error"
    assert [call.tool for call in recorded.of(ToolCallStarted)] == [
        "list_files",
        "apply_patch",
        "read_file",
        "read_file",
    ]
    assert [call.ok for call in recorded.of(ToolCallFinished)] == [True, True, True, False]
    assert (workspace / "a").read_text() == "2\n"


def test_script_is_found_by_option_or_beside_the_task(tmp_path: Path) -> None:
    for name in ("given.yaml", "t.yaml", "scripted.yaml"):
        (tmp_path / name).write_text("steps: []")
    by_task = {"script": str(tmp_path / "{task}.yaml")}
    for setup in (
        AgentSetup("t", tmp_path),
        AgentSetup("t", Path("/nowhere"), script=tmp_path / "given.yaml"),
        AgentSetup("t", Path("/nowhere"), options=by_task),
    ):
        make_agent("scripted", setup)
    with pytest.raises(InputError, match="no script for agent 'scripted' and task 't'"):
        make_agent("scripted", AgentSetup("t", Path("/nowhere")))


@pytest.mark.parametrize(
    "text,problems",
    [
        ("steps: 3", [":1: steps: expected a list"]),
        ("- run: {}", [":1: expected a mapping"]),
        ("stepz: []", [":1: stepz: unknown key", "did you mean `steps`"]),
        ("steps:\n  - runn: {command: x}", [":2: steps[0].runn: unknown tool", "did you mean `run`"]),
        ("steps:\n  - run: {cmd: x}", [":2: steps[0].run.cmd: unknown argument", "steps[0].run.command", "required"]),
        ("steps:\n  - run: ls", [":2: steps[0].run: expected the tool's arguments"]),
        ("steps:\n  - ls", [":2: steps[0]: expected a tool call"]),
        ("steps:\n  - run: {command: a}\n    read_file: {path: a}", [":2: steps[0]: expected exactly one tool"]),
        ("steps:\n  - {}", [":2: steps[0]: expected exactly one tool"]),
        ("steps:\n  - run: {command: a}\n    note: 3", [":3: steps[0].note: expected text"]),
        (
            "steps:\n  - run: {command: a}\n  - nope: {}\n  - read_file: {path: a, start_line: zero}",
            [":3: steps[1].nope", ":4: steps[2].read_file.start_line"],
        ),
        ("steps: [", [": invalid YAML"]),
    ],
)
def test_all_script_problems_are_reported_with_lines(tmp_path: Path, text: str, problems: list[str]) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(text)
    with pytest.raises(ContractError) as caught:
        load_script(path)
    message = "\n".join(caught.value.problems)
    for problem in problems:
        assert problem in message
