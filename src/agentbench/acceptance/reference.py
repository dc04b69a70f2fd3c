"""The reference solution as a patch. It never enters an agent's sandbox."""

from __future__ import annotations

from pathlib import Path

from agentbench.acceptance.grading_context import GradingContext
from agentbench.acceptance.replica import grading_spec
from agentbench.contract.reference_file import interpreter, is_patch
from agentbench.contract.task_files import read_bytes
from agentbench.core.command import Command
from agentbench.core.errors import TaskError
from agentbench.sandbox.protocol import Mount
from agentbench.workspace.diff.extract import extract

FOLDER = "/opt/reference"


class ReferenceFailed(TaskError):
    """The reference script failed, or its changes are not a patch."""


def reference_patch(context: GradingContext) -> bytes | None:
    """Return the reference patch, or the changes of the reference script as a patch; None if the task has none.

    Raises:
        ReferenceFailed: the script failed, or its changes are not a patch.
        ContractError: the file cannot be read.
        SandboxError: the sandbox failed.
    """
    file = context.loaded.reference_file
    if file is None:
        return None
    return read_bytes(file) if is_patch(file) else _run_script(context, file)


def _run_script(context: GradingContext, file: Path) -> bytes:
    target = f"{FOLDER}/{file.name}"
    argv = (interpreter(file), target)
    with context.backend.open(grading_spec(context, [Mount(file, target)]), context.prepared) as sandbox:
        timeout = context.loaded.task.environment.timeout_sec
        completed = sandbox.run(Command(argv=argv, cwd=context.spec.workdir, timeout_sec=timeout))
        if not completed.ok:
            stderr = completed.stderr.kept.decode("utf-8", "replace").strip()[-300:]
            how = f"timed out after {timeout} s" if completed.timed_out else f"failed with exit {completed.exit_code}"
            raise ReferenceFailed(f"the reference {file.name} {how}: {stderr}")
        sandbox.kill_processes()
        extracted = extract(context.prepared.base_tree, sandbox.tree(), generated=context.loaded.task.oracle.generated)
    if extracted.problem is not None:
        raise ReferenceFailed(f"the reference {file.name}: {extracted.problem}")
    return extracted.patch
