"""Find out whether a declared build changed the tests.

A build runs code of the patch, so it can change what the patch itself may not. Its effects on disk are compared with
those of the same build on the base repository.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

from agentbench.acceptance.build import run_base_build
from agentbench.acceptance.cache import load_or_make
from agentbench.acceptance.cache_keys import replica_key
from agentbench.acceptance.grading_context import Finding, GradingContext
from agentbench.acceptance.protected import GradedTree, Protection
from agentbench.acceptance.replica import base_entries, base_tree, declares_build, open_replica
from agentbench.acceptance.runner.runner_monitor import is_test
from agentbench.core.canonical import sha256_hex
from agentbench.core.errors import PatchInvalid
from agentbench.sandbox.protocol import Sandbox
from agentbench.tree.entry import Entry
from agentbench.tree.limits import TreeTooLarge
from agentbench.workspace.diff.events import path_text

MAX_FINDINGS = 20


class BaseBuildChanges(BaseModel):
    """Test files that the base repository's own build changes or makes; None if its build fails or leaves too much."""

    model_config = ConfigDict(frozen=True, defer_build=True)
    paths: tuple[str, ...] | None


def base_build_changes(context: GradingContext) -> BaseBuildChanges:
    """Find out what the build does to the tests of the base repository; cached.

    Raises:
        SandboxError: the sandbox failed.
    """
    protection = Protection(context.loaded.task.oracle.protected or (), frozenset(context.loaded.hidden_files()))

    def may_matter(path: bytes) -> bool:
        """Select all test files and protected files: which tests are required is not known yet."""
        return protection.restores(path) or is_test(path.decode("utf-8", "surrogateescape"))

    def make() -> BaseBuildChanges:
        with open_replica(context, base_tree(context)) as sandbox:
            built = run_base_build(context, sandbox)
            if built is not None and (built.exit_code != 0 or built.timed_out):
                return BaseBuildChanges(paths=None)
            try:
                changed = _changed_files(sandbox, base_tree(context), base_entries(context), may_matter)
            except PatchInvalid:
                return BaseBuildChanges(paths=None)
            return BaseBuildChanges(paths=changed)

    return load_or_make(context.cache, replica_key(context), BaseBuildChanges, make)[0]


def build_changes(
    sandbox: Sandbox, context: GradingContext, tree: GradedTree, tests: Collection[bytes] = ()
) -> tuple[str, ...]:
    """Return the protected files that the declared build of a candidate changed. `tests`: files of required tests.

    Raises:
        PatchInvalid: the build left more files than can be read, and the base repository's build does not.
        SandboxError: the sandbox failed.
    """
    if not declares_build(context):
        return ()
    base, tests = base_entries(context), frozenset({*tests, *context.loaded.hidden_files()})
    oracle = context.loaded.task.oracle
    protection = Protection(oracle.protected or (), tests, oracle.generated)
    try:
        return _changed_files(
            sandbox, tree, base, lambda path: protection.guards(path, there=path in base or path in tests)
        )
    except PatchInvalid:
        if base_build_changes(context).paths is None:
            return ()
        raise


def changed_file_findings(context: GradingContext, changed: Collection[str]) -> tuple[Finding, ...]:
    """Report files of the tests that a candidate's build changed and the base repository's build does not.

    If the base repository does not build, there is nothing to compare with, and the findings are notes.

    Raises:
        SandboxError: the sandbox failed.
    """
    if not changed:
        return ()
    expected = base_build_changes(context).paths
    severity: Literal["note", "gate"] = "note" if expected is None else "gate"
    detail = "the build changed a file of the tests or of their configuration"
    paths = [path for path in changed if path not in (expected or ())]
    return tuple(Finding("build_changed_runner", severity, detail, path=path) for path in paths[:MAX_FINDINGS])


def _changed_files(
    sandbox: Sandbox, tree: GradedTree, base: Mapping[bytes, Entry], matters: Callable[[bytes], bool]
) -> tuple[str, ...]:
    """Return the files that matter and differ from what was there before the build, those it added included.

    Raises:
        PatchInvalid: the build left more files than can be read.
        SandboxError: the sandbox failed.
    """
    before: dict[bytes, str | None] = {path: entry.sha256 for path, entry in base.items()}
    for write in tree.writes:
        before[write.path] = None if write.data is None else sha256_hex(write.data)
    try:
        after: dict[bytes, str | None] = {entry.path: entry.sha256 for entry in sandbox.tree().entries()}
    except TreeTooLarge as error:
        raise PatchInvalid(f"the files that the build left cannot be read: {error.message}") from error
    paths = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    return tuple(path_text(path)[0] for path in paths if matters(path))
