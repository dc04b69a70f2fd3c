"""Grading a given patch does not load what only agents and models need: importing it takes longer than the grading."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.component


def test_grading_loads_no_agents_tools_or_http_library() -> None:
    program = "import sys, agentbench.cli.launch, agentbench.run.predictions; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    slow = ("httpx", "agentbench.agents.", "agentbench.tools.session", "agentbench.run.attempt.judge")
    assert [name for name in done.stdout.split() if name.startswith(slow)] == []


def test_rule_patterns_are_not_compiled_before_they_are_needed() -> None:
    program = "from agentbench.policy import monitor_rules as m; m.published_rules(); print(m._compiled.cache_info().currsize)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
