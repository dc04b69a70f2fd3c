"""Grading a given patch does not load what only agents and models need: importing it takes longer than the grading."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.component

LOADED_LATER = (
    # libraries
    "numpy",
    "scipy",
    "httpx",
    "http.client",
    "concurrent.futures",
    "logging",
    "ssl",
    "html.parser",
    "xml.sax",
    # agents and models
    "agentbench.agents.",
    "agentbench.models.client.chat_model",
    "agentbench.models.factory",
    "agentbench.models.presets",
    "agentbench.execution.attempt.conversation",
    "agentbench.execution.attempt.judge",
    "agentbench.tools.session",
    # statistics and reports of several attempts
    "agentbench.reports.summary",
    "agentbench.statistics.",
    "agentbench.cli.fail_on",
    # rules that act on an agent, and the audit of finished attempts
    "agentbench.policy.breakers",
    "agentbench.policy.monitors",
    "agentbench.policy.rule_engine",
    "agentbench.record.attempt_audit",
    "agentbench.record.recompute",
    # rare kinds of checks, sources and scorers
    "agentbench.acceptance.checks.command",
    "agentbench.acceptance.checks.probe",
    "agentbench.acceptance.scorers.",
    "agentbench.contract.scorers",
    "agentbench.acceptance.decoys.exceptions",
    "agentbench.acceptance.decoys.mutate",
    "agentbench.acceptance.decoys.source_file",
    "agentbench.execution.variant_file",
    "agentbench.execution.proxy.",
    "agentbench.execution.setup_network",
    "agentbench.workspace.secrets.rules",
    "agentbench.workspace.source.archive",
)


def run_python(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_grading_loads_only_what_it_needs() -> None:
    modules = "agentbench.cli.launch, agentbench.execution.predictions, agentbench.reports.single_patch"
    loaded = run_python(f"import sys, {modules}; print(*sys.modules, sep='\\n')")
    names_only = {"agentbench.agents.cli", "agentbench.agents.cli.names"}  # which agents are third-party programs
    assert [name for name in loaded.split() if name.startswith(LOADED_LATER) and name not in names_only] == []


def test_importing_the_models_builds_no_schema() -> None:
    """Defaults that are instances must not build their model: that would build every schema in each command."""
    program = (
        "import agentbench.contract.lock, agentbench.record.manifest\n"
        "from agentbench.contract.schema import Model\n"
        "from agentbench.record.schema import Part\n"
        "kinds = [*Model.__subclasses__(), *Part.__subclasses__()]\n"
        "print(len(kinds), *(kind.__name__ for kind in kinds if kind.__pydantic_complete__))"
    )
    count, *built = run_python(program).split()
    assert int(count) > 40
    assert built == []


def test_rule_patterns_are_not_compiled_before_they_are_needed() -> None:
    program = "from agentbench.policy import monitor_rules as m; m.published_rules(); print(m._compiled.cache_info().currsize)"
    assert run_python(program).strip() == "0"
