"""Open a grading replica: a fresh sandbox on the prepared environment, with the tree to grade.

Every check gets a replica of its own, so that none sees what an earlier one left behind; it costs some tens of
milliseconds. A declared build runs in each of them: copying its products would miss what it installed outside the
workspace.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from agentbench.acceptance.grading_context import GradingContext
from agentbench.acceptance.protected import GradedTree, Protection, compose
from agentbench.core.command import Command
from agentbench.sandbox.protocol import Mount, Phase, Sandbox, SandboxSpec
from agentbench.tree.entry import Entry

NONE = "none"
ENV = {"PYTHONDONTWRITEBYTECODE": "1"}
"""For every command of grading: bytecode written by one step must not run in the next."""
STATIC_TIMEOUT_SEC = 600


def grading_spec(context: GradingContext, mounts: Sequence[Mount] = ()) -> SandboxSpec:
    return dataclasses.replace(context.spec, phase=Phase.GRADING, network=False, mounts=(*context.spec.mounts, *mounts))


def base_entries(context: GradingContext) -> Mapping[bytes, Entry]:
    return {entry.path: entry for entry in context.prepared.base_tree.entries()}


def base_tree(context: GradingContext, base: Mapping[bytes, Entry] | None = None) -> GradedTree:
    """The base repository with the hidden files."""
    hidden = context.loaded.hidden_files()
    if not hidden:
        return GradedTree()
    return compose(base if base is not None else base_entries(context), (), Protection(), hidden)


@contextmanager
def open_replica(context: GradingContext, tree: GradedTree, mounts: Sequence[Mount] = ()) -> Iterator[Sandbox]:
    """Open a replica that is not built yet.

    Raises:
        SandboxError: the sandbox failed.
        PatchInvalid: a path of the tree cannot be written.
    """
    with open_base(context, mounts) as sandbox:
        write_tree(sandbox, tree)
        yield sandbox


def open_base(context: GradingContext, mounts: Sequence[Mount] = ()) -> AbstractContextManager[Sandbox]:
    """Open a replica of the base repository. `write_tree` then makes it a replica of a tree."""
    return context.backend.open(grading_spec(context, mounts), context.prepared)


def write_tree(sandbox: Sandbox, tree: GradedTree) -> None:
    if tree.writes:
        sandbox.write_files(tree.writes)


def declares_build(context: GradingContext) -> bool:
    return context.loaded.task.oracle.build != NONE


def shell(context: GradingContext, line: str, timeout_sec: float) -> Command:
    return Command(line=line, cwd=context.spec.workdir, env=ENV, timeout_sec=timeout_sec)
