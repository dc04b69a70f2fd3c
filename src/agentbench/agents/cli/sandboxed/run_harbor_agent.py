"""Run one agent of Harbor on the workspace. Copied into the sandbox and run there with Harbor's interpreter.

    python run_harbor_agent.py NAME|MODULE:CLASS MODEL

Harbor's environment is the workspace itself, because this program is inside the sandbox already: commands run in place and as the
same user, and there is no network but the gateway. There is no trial and no verifier; nothing is scored here.
"""
# ruff: noqa: T201, INP001 - a program of its own, not a module of the package
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path, PurePosixPath

from harbor.agents.factory import AgentFactory
from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.models.agent.context import AgentContext
from harbor.models.task.config import EnvironmentConfig
from harbor.models.trial.config import AgentConfig
from harbor.models.trial.paths import EnvironmentPaths, TrialPaths

WORKSPACE = Path.cwd()
OWN_OPTIONS = {"terminus-2": {"record_terminal_session": False}}
"""Options of bundled agents: Terminus would install a recorder from the network."""


class WorkspaceEnvironment(BaseEnvironment):
    """Executes in the workspace, as the user that the harness chose."""

    @staticmethod
    def type() -> str:
        return "workspace"

    def _validate_definition(self) -> None:
        pass

    async def start(self, force_build: bool) -> None:  # noqa: FBT001
        pass

    async def stop(self, delete: bool) -> None:  # noqa: FBT001
        pass

    async def upload_file(self, source_path, target_path) -> None:  # noqa: ANN001
        Path(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source_path, target_path)

    async def upload_dir(self, source_dir, target_dir) -> None:  # noqa: ANN001
        shutil.copytree(source_dir, target_dir, dirs_exist_ok=True)

    download_file, download_dir = upload_file, upload_dir

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None) -> ExecResult:  # noqa: ANN001
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", command),
            cwd=cwd or WORKSPACE,
            env={**os.environ, **(self._merge_env(env) or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            output, errors = await asyncio.wait_for(process.communicate(), timeout_sec or None)
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            raise RuntimeError(f"Command timed out after {timeout_sec} seconds") from None  # what Harbor's own raise
        return ExecResult(
            stdout=output.decode(errors="replace"),
            stderr=errors.decode(errors="replace"),
            return_code=process.returncode,
        )


async def run(name: str, model: str, briefing: str, folder: Path) -> None:
    trial = TrialPaths(folder)
    trial.agent_dir.mkdir(parents=True)
    EnvironmentPaths.agent_dir = PurePosixPath(trial.agent_dir)  # agents write logs to /logs, which does not exist here
    environment = WorkspaceEnvironment(folder, "contract", "contract", trial, EnvironmentConfig())
    config = AgentConfig(name=name, model_name=f"openai/{model}", kwargs=OWN_OPTIONS.get(name, {}))
    agent = AgentFactory.create_agent_from_config(config, trial.agent_dir)
    await agent.setup(environment)
    await agent.run(briefing, environment, AgentContext())


def main(name: str, model: str) -> None:
    # Agents are imported from the agent's files, or from Harbor itself.
    sys.path.insert(0, os.environ.get("AB_AGENT_FILES", str(WORKSPACE)))
    briefing = Path(os.environ["AB_BRIEFING"]).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        try:
            asyncio.run(run(name, model, briefing, Path(folder)))
        except Exception as error:  # noqa: BLE001 - whatever the agent raises
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
