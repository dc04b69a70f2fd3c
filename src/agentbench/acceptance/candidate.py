"""The candidate: a tree to grade, the build of its replicas, and the reference it is compared with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from agentbench.acceptance import events
from agentbench.acceptance.build import build_limit, keep_reference_build, run_base_build, run_build
from agentbench.acceptance.checks.exit_status import step_result
from agentbench.acceptance.grading_context import GradingContext, StepResult
from agentbench.acceptance.protected import GradedTree, Protection, compose
from agentbench.acceptance.reference import reference_patch
from agentbench.acceptance.replica import declares_build, open_base, write_tree
from agentbench.acceptance.sandbox_loss import attribute_loss
from agentbench.core.command import Completed
from agentbench.core.errors import AgentFault, HarnessError, SandboxBroken, SandboxLost
from agentbench.core.reasons import Outcome
from agentbench.sandbox.protocol import Mount, Sandbox
from agentbench.trace.events import BuildFinished, BuildStarted
from agentbench.tree.entry import Entry, FileWrite
from agentbench.workspace.diff.apply import plan_writes
from agentbench.workspace.diff.parse import parse

NO_BUILD_DECLARED = "declared no-op"


class BuildFailed(Exception):
    """The build did not pass, so the check could not start."""

    def __init__(self, step: StepResult) -> None:
        super().__init__(step.why)
        self.step = step


class Candidate:
    """The base repository with a patch in it, as it is graded.

    `tree` has the patch without what it may not decide (`protection`) and with the hidden files. The first build is the
    build step of the log, kept in `build_step`; further replicas are built the same way without a step of their own.

    `decoys`: whether pytest checks also run decoy tests, which takes a reference.
    """

    is_under_test = True
    """Whether its code is graded, so that a hang is its failure. Otherwise it is an error of the task."""

    def __init__(
        self,
        context: GradingContext,
        base: Mapping[bytes, Entry],
        writes: Sequence[FileWrite] = (),
        protection: Protection | None = None,
        *,
        decoys: bool = False,
    ) -> None:
        self.context = context
        self.base = base
        self.decoys = decoys
        self.build_step: StepResult | None = None
        self._writes = writes
        self._protection = protection or Protection()
        self._hidden = context.loaded.hidden_files()
        self.tree = compose(base, writes, self._protection, self._hidden)

    @property
    def reference_file(self) -> Path | None:
        """The file of the reference that this candidate is compared with, or None."""
        return self.context.loaded.reference_file

    def tree_without_hidden_tests(self) -> GradedTree:
        """The tree for checks that do not run the hidden pytest tests, so that no code can read them there."""
        tests = self._protection.files & self._hidden.keys()
        writes = [write for write in self._writes if write.path not in tests]
        hidden = {path: file for path, file in self._hidden.items() if path not in tests}
        return compose(self.base, writes, self._protection, hidden)

    def reference(self) -> Candidate | None:
        """The reference solution as a candidate outside the attempt's log, or None if the task has none.

        Raises:
            ContractError, TaskError, PatchInvalid: the reference cannot be read or applied.
            SandboxError: the sandbox failed.
        """
        patch = reference_patch(self.context) if self.reference_file is not None else None
        if patch is None:
            return None
        writes = plan_writes(parse(patch), self.context.prepared.base_tree).writes
        return Reference(self.context.unlogged(), self.base, writes, self._protection)

    @contextmanager
    def replica(self, tree: GradedTree | None = None, mounts: Sequence[Mount] = ()) -> Iterator[Sandbox]:
        """Open a replica of the tree (or of a variant of it) and build it.

        Raises:
            BuildFailed: the build did not pass.
            PatchInvalid: a path of the tree cannot be written.
            SandboxBroken: the candidate's files or code ended the sandbox or made it stop answering.
            SandboxError: the sandbox failed.
        """
        name = ""
        try:
            with open_base(self.context, mounts) as sandbox:
                name = sandbox.id
                write_tree(sandbox, self.tree if tree is None else tree)
                self.build(sandbox)
                yield sandbox
        except SandboxLost as lost:
            # A driver's sandbox is no concern of this replica.
            raise (self.attribute(lost) if lost.sandbox == name else lost) from lost

    def attribute(self, lost: SandboxLost) -> SandboxBroken | SandboxLost:
        """Return the error for a replica that was lost while the tree was written, built or checked."""
        return attribute_loss(lost, "grading", self.context.log)

    def build(self, sandbox: Sandbox) -> None:
        """Run the declared build.

        Raises:
            BuildFailed: it did not pass. A sandbox failure in the first build counts as one: `fail` if the candidate's code
                broke the sandbox, else `error`.
            SandboxError: the sandbox failed in a later build.
        """
        if self.build_step is None:
            step = self.build_step = self._first_build(sandbox)
        else:
            step = self._run_build(sandbox)[0]
        if step.outcome is not Outcome.PASS:
            raise BuildFailed(step)

    def _first_build(self, sandbox: Sandbox) -> StepResult:
        context, line = self.context, self.context.loaded.task.oracle.build
        events.step_started(context, BuildStarted, "build", line, build_limit(context))
        completed: Completed | None = None
        try:
            step, completed = self._run_build(sandbox)
        except HarnessError as error:
            step = self.failed_step("build", error)
        events.step_finished(context, BuildFinished, step, completed)
        return step

    def failed_step(self, step: str, error: HarnessError) -> StepResult:
        """Return the result of a step during which the sandbox failed."""
        fault = self.attribute(error) if isinstance(error, SandboxLost) else error
        if isinstance(fault, AgentFault):
            return StepResult(step, Outcome.FAIL, fault.message)
        return StepResult(step, Outcome.ERROR, f"harness error: {fault.message}")

    def _run_build(self, sandbox: Sandbox) -> tuple[StepResult, Completed | None]:
        context = self.context
        if not declares_build(context):
            return StepResult("build", Outcome.PASS, NO_BUILD_DECLARED), None
        limit = build_limit(context)
        completed = run_build(context, sandbox, limit)
        return step_result(context, "build", context.loaded.task.oracle.build, completed, limit), completed


class Reference(Candidate):
    """The reference solution. It is compared with nothing."""

    is_under_test = False
    reference_file = None

    def _run_build(self, sandbox: Sandbox) -> tuple[StepResult, Completed | None]:
        step, completed = super()._run_build(sandbox)
        if completed is not None:
            keep_reference_build(self.context, completed)
        return step, completed

    def attribute(self, lost: SandboxLost) -> SandboxLost:
        """Return the loss as it is: no code of a candidate ran."""
        return lost


class BaseCandidate(Candidate):
    """The base repository with the hidden files and no patch. It is compared with nothing."""

    is_under_test = False
    reference_file = None

    def __init__(self, context: GradingContext, base: Mapping[bytes, Entry]) -> None:
        super().__init__(context, base)

    def attribute(self, lost: SandboxLost) -> SandboxLost:
        """Return the loss as it is: no code of a candidate ran."""
        return lost

    def build(self, sandbox: Sandbox) -> None:
        """Run the declared build and ignore its result: a base that does not build fails its checks, as it should."""
        run_base_build(self.context, sandbox)
