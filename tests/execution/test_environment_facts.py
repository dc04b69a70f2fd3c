"""Facts about a prepared environment."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agentbench.contract.load import load_task
from agentbench.core.command import Command
from agentbench.execution.environment_facts import read_environment_facts
from agentbench.execution.lab import Lab, sandbox_spec
from agentbench.sandbox.protocol import Phase
from tests.execution.tasks import make_task

pytestmark = [
    pytest.mark.component,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]

OWN_PIP = r"printf '#!/bin/sh\necho pip 99 of my own\n' > /opt/env/bin/pip"
NO_PIP = "rm /opt/env/bin/pip*"


@pytest.mark.parametrize("setup", ["true", OWN_PIP, NO_PIP], ids=["pip", "own pip", "no pip"])
def test_version_of_pip_is_the_one_it_prints(tmp_path: Path, shared_state: Path, setup: str) -> None:
    task = load_task(make_task(tmp_path / "task", more=f"setup:\n  commands:\n    - |\n      {setup}\n"))
    spec = sandbox_spec(task, Phase.AGENT)
    with Lab(sandbox="bwrap", state=shared_state) as lab:
        prepared = lab.prepare(task)
        facts = read_environment_facts(prepared.backend, spec, prepared.environment, tmp_path)
        with prepared.backend.open(spec, prepared.environment) as sandbox:
            printed = sandbox.run(Command(line="pip --version", cwd="/")).stdout.text.strip()
    assert facts.package_managers.get("pip", "") == printed
