"""docs/reference/agents.md covers every agent, option and tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.agents.command import AGENT_FILES_TARGET, AGENT_FILES_VARIABLE, BRIEFING_VARIABLE
from agentbench.agents.registry import AGENTS, ALIASES
from agentbench.plugins.kinds import Kind
from agentbench.tools.registry import TOOLS
from agentbench.tools.result import ToolError

PAGE = (Path(__file__).parents[2] / "docs" / "reference/agents.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "word",
    [
        *AGENTS,
        *ALIASES,
        *TOOLS,
        *ToolError,
        Kind.AGENT.group,
        AGENT_FILES_TARGET,
        AGENT_FILES_VARIABLE,
        BRIEFING_VARIABLE,
    ],
)
def test_every_name_is_documented(word: str) -> None:
    assert f"`{word}`" in PAGE or f"`${word}`" in PAGE


@pytest.mark.parametrize("name", list(TOOLS))
def test_every_argument_of_a_tool_is_documented(name: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` | `"))
    for argument in TOOLS[name].arguments.model_fields:
        assert argument in row
