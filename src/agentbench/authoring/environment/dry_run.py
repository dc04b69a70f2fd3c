"""Ask pip which releases it would install, without installing them.

Only the lock that is made of the answer is installed, so that everything is installed once.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from agentbench.authoring.commit.split import UnsuitableCommit
from agentbench.authoring.commit.task_draft import TaskDraft, write_task
from agentbench.authoring.commit.verification import prepare, set_up
from agentbench.execution.lab import Lab
from agentbench.sandbox.protocol import Prepared

_INSTALL = "python -m pip install "
_DRY_RUN = f'{_INSTALL}--dry-run --report "$HOME/dry-run.json" '
_LIST = """python -c '
import json, os
with open(os.path.expanduser("~/dry-run.json"), encoding="utf-8") as file:
    report = json.load(file)
for item in report["install"]:
    if not item["download_info"].get("dir_info", {}).get("editable"):
        separator, place = (" @ ", "a URL") if item["is_direct"] else ("==", item["metadata"]["version"])
        print(item["metadata"]["name"] + separator + place)
'"""
_TOO_OLD = "no such option: --dry-run"


def find_releases(draft: TaskDraft, folder: Path, lab: Lab) -> list[str]:
    """Return the releases that a draft's setup would install, as `pip freeze` would list them.

    pip before 22.2 has no dry run, so setup installs everything and `pip freeze` lists it.

    Raises:
        UnsuitableCommit: pip finds no releases that fit together, or setup failed.
        SandboxError, WorkspaceError: harness errors.
    """
    commands = tuple(command.replace(_INSTALL, _DRY_RUN) for command in draft.setup)
    try:
        asked = set_up(write_task(dataclasses.replace(draft, setup=commands, capture=(_LIST,)), folder), lab)
    except UnsuitableCommit as error:
        if _TOO_OLD not in error.remedy:
            raise
        return freeze(prepare(write_task(draft, folder), lab).environment)
    listed = asked.steps[-1]
    if listed.exit_code != 0:
        return freeze(prepare(write_task(draft, folder), lab).environment)
    return listed.stdout.decode("utf-8", "replace").splitlines()


def freeze(environment: Prepared) -> list[str]:
    """Return what setup installed, as `pip freeze` listed it."""
    outputs = [step.stdout for step in environment.steps if step.capture and "pip freeze" in step.command]
    return outputs[-1].decode("utf-8", "replace").splitlines() if outputs else []
