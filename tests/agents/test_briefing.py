"""The briefing separates the issue from acceptance, and reveals nothing of the checks or the reference."""

from __future__ import annotations

import pytest

from agentbench.agents.briefing import write_briefing
from agentbench.contract.schema import Task
from agentbench.tools.rules import rules_for

pytestmark = [pytest.mark.req("R-03", "C-10"), pytest.mark.component]

TASK = Task.model_validate(
    {
        "id": "toy-median",
        "suite": "demo",
        "repo": {"path": "secret_repo_path"},
        "hints": {"test_command": "python -m pytest -q", "target_modules": ["toy.stats"]},
        "environment": {"python": "3.11", "timeout_sec": 600, "tool_timeout_sec": 30, "secrets": ["PRIVATE_TOKEN"]},
        "oracle": {
            "build": "make secret_build",
            "hidden": "hidden_folder",
            "protected": ["protected_glob/**"],
            "checks": [
                {
                    "id": "secret_check_id",
                    "command": "python -m pytest hidden_folder/test_secret.py",
                    "parser": "pytest",
                    "fail_to_pass": ["hidden_folder/test_secret.py::test_hidden"],
                },
                {"id": "other", "layer": "integration", "command": "secret_command", "mandatory": False},
            ],
        },
        "reference": "reference_secret.patch",
        "policy": {"editable_globs": ["src/**"], "deny_commands": [{"pattern": "curl *"}]},
        "agent": {"max_steps": 12},
    }
)
STATEMENT = "median([1, 2, 3, 4]) returns 3, it should be 2.5.\n"


def briefing() -> tuple[str, dict[str, str]]:
    briefing = write_briefing(TASK, STATEMENT, TASK.oracle.checks, rules_for(TASK))
    return briefing.text, dict(briefing.parts)


def test_issue_and_acceptance_are_separate_parts() -> None:
    text, parts = briefing()
    assert parts["issue"] == STATEMENT.strip()
    assert "check" not in parts["issue"]
    assert "1 check (unit) must pass" in parts["acceptance"]
    assert "must build" in parts["acceptance"]
    assert list(parts) == ["version", "issue", "hints", "environment", "rules", "acceptance"]
    order = [text.index(heading) for heading in ("## Issue", "## Hints", "## Environment", "## Rules", "## Acceptance")]
    assert order == sorted(order)


@pytest.mark.parametrize(
    "secret",
    ["secret", "hidden_folder", "test_hidden", "protected_glob", "reference_", "PRIVATE_TOKEN"],
)
def test_briefing_reveals_neither_checks_nor_reference(secret: str) -> None:
    assert secret not in briefing()[0]


@pytest.mark.parametrize(
    "fact",
    [
        "python -m pytest -q",
        "toy.stats",
        "12 tool calls",
        "600 seconds",
        "30 seconds",
        "`src/**`",
        "`curl *`",
        "no network",
    ],
)
def test_briefing_states_what_the_agent_needs(fact: str) -> None:
    assert fact in briefing()[0]


def test_same_task_gives_the_same_text() -> None:
    assert briefing() == briefing()


def test_empty_parts_are_omitted() -> None:
    bare = Task.model_validate({"id": "t", "suite": "s", "repo": "none"})
    briefing = write_briefing(bare, "do", (), rules_for(bare))
    assert "## Hints" not in briefing.text
    assert "hints" not in briefing.parts
