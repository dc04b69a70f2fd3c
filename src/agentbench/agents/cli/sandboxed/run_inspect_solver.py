"""Run one solver or agent of Inspect AI on the workspace. Copied into the sandbox and run there with Inspect's interpreter.

    python run_inspect_solver.py MODULE:NAME MODEL

The task has one sample: the briefing. Inspect's tools work in the workspace through a sandbox environment that executes in place,
because this program is inside the sandbox already. Its requests to a model go to the gateway. Nothing is scored here.
"""
# ruff: noqa: T201, INP001 - a program of its own, not a module of the package
# mypy: ignore-errors

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from pathlib import Path

from inspect_ai import Task, eval  # noqa: A004
from inspect_ai.agent import as_solver, is_agent
from inspect_ai.dataset import Sample
from inspect_ai.model import get_model
from inspect_ai.util import sandboxenv
from inspect_ai.util._sandbox.local import LocalSandboxEnvironment

WORKSPACE = Path.cwd()


class _Workspace:
    """Stands for the temporary folder of Inspect's local environment; it is never removed."""

    name = str(WORKSPACE)

    def cleanup(self) -> None:
        pass


@sandboxenv(name="workspace")
class WorkspaceEnvironment(LocalSandboxEnvironment):
    """Executes in the workspace, as the user that the harness chose."""

    @classmethod
    async def sample_init(cls, task_name, config, metadata):  # noqa: ANN001, ANN206, ARG003
        return {"default": cls()}

    def __init__(self) -> None:
        super().__init__()
        self.directory.cleanup()
        self.directory = _Workspace()


def load(name: str):  # noqa: ANN201
    """Import MODULE:NAME from the agent's files or from an installed package, and call it if it is a factory."""
    module, _, attribute = name.partition(":")
    sys.path.insert(0, os.environ.get("AB_AGENT_FILES", str(WORKSPACE)))
    factory = getattr(importlib.import_module(module), attribute)
    solver = factory()
    return as_solver(solver) if is_agent(solver) else solver


def main(name: str, model: str) -> None:
    solver = load(name)
    briefing = Path(os.environ["AB_BRIEFING"]).read_text(encoding="utf-8")
    task = Task(name="contract", dataset=[Sample(input=briefing)], solver=solver, sandbox="workspace")
    # The gateway speaks this dialect for every model; Inspect would choose one by the model's name.
    chosen = get_model(f"openai/{model}", responses_api=False)
    with tempfile.TemporaryDirectory() as logs:
        (log,) = eval(task, model=chosen, log_dir=logs, display="none", fail_on_error=True, max_retries=0)
        sample = log.samples[0] if log.samples else None
    if log.status != "success":
        error = (sample and sample.error) or log.error
        print(error.message if error else f"evaluation ended with status {log.status}", file=sys.stderr)
        sys.exit(1)
    if sample is not None and sample.output is not None:
        print(sample.output.completion)


if __name__ == "__main__":
    main(*sys.argv[1:])
