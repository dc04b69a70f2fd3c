"""Opening a grading replica: a fresh sandbox on the prepared environment, with the tree that is to be graded.

Every check gets a replica of its own, so that none sees what an earlier one left behind; it costs some tens of
milliseconds. A declared build is therefore run in each of them: copying its products instead would miss what it
installed outside the workspace.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from agentbench.acceptance.grading_context import GradingBench
from agentbench.acceptance.protected import GradedTree
from agentbench.core.command import Command, Completed
from agentbench.sandbox.protocol import Mount, Phase, Sandbox, SandboxSpec

NONE = "none"
ENV = {"PYTHONDONTWRITEBYTECODE": "1"}
"""Of every command of the oracle: bytecode written by one step must not be what the next one runs."""
BUILD_TIMEOUT_SEC = 1800
STATIC_TIMEOUT_SEC = 600


def grading_spec(bench: GradingBench, mounts: Sequence[Mount] = ()) -> SandboxSpec:
    return dataclasses.replace(bench.spec, phase=Phase.ORACLE, network=False, mounts=(*bench.spec.mounts, *mounts))


@contextmanager
def open_replica(bench: GradingBench, tree: GradedTree, mounts: Sequence[Mount] = ()) -> Iterator[Sandbox]:
    """A replica, not built yet.

    Raises:
        SandboxError: ours.
        PatchInvalid: a path of the tree cannot be written.
    """
    with bench.backend.open(grading_spec(bench, mounts), bench.prepared) as sandbox:
        if tree.writes:
            sandbox.write_files(tree.writes)
        yield sandbox


def declares_build(bench: GradingBench) -> bool:
    return bench.loaded.task.oracle.build != NONE


def run_build(bench: GradingBench, sandbox: Sandbox) -> Completed | None:
    """Run the declared build; None when there is none."""
    if not declares_build(bench):
        return None
    return sandbox.run(shell(bench, bench.loaded.task.oracle.build, BUILD_TIMEOUT_SEC))


def shell(bench: GradingBench, line: str, timeout_sec: float) -> Command:
    return Command(line=line, cwd=bench.spec.workdir, env=ENV, timeout_sec=timeout_sec)
