"""An oracle held against no work, the reference, and wrong variants of the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from agentbench.acceptance.grade import grade
from agentbench.acceptance.grading_context import Acceptance, GradingContext
from agentbench.acceptance.mutation.variants import WANTED, Variant, variants
from agentbench.acceptance.reference import reference_patch
from agentbench.acceptance.validation import run_baseline, why_not
from agentbench.core.errors import PatchInvalid, TaskError
from agentbench.core.reasons import Outcome
from agentbench.core.threads import threads
from agentbench.tree.entry import FileWrite, Tree
from agentbench.workspace.diff.apply import apply
from agentbench.workspace.diff.events import path_text
from agentbench.workspace.diff.extract import extract
from agentbench.workspace.diff.parse import parse
from agentbench.workspace.diff.patched_tree import PatchedTree

LEAST = 20
OPERATORS = 5
"""An audit over fewer variants or operators says that it is a small one."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One wrong variant and what the oracle made of it: `killed`, `survived`, or `error` (undecided, ours)."""

    operator: str
    path: str
    line: int
    what: str
    result: str
    why: str
    diff: str
    """Against the reference; only of those that survived."""


@dataclass(frozen=True, slots=True)
class Audit:
    """`noop`: fail as it must, pass, error. `reference`: pass as it must, fail, error, none."""

    task_id: str
    noop: str
    reference: str
    why: str
    tried: tuple[Tried, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        """Nobody passes without work, and the reference does."""
        return self.noop == "fail" and self.reference == "pass"

    @property
    def killed(self) -> int:
        return sum(one.result == "killed" for one in self.tried)

    @property
    def survivors(self) -> tuple[Tried, ...]:
        return tuple(one for one in self.tried if one.result == "survived")

    @property
    def kill_rate(self) -> float | None:
        """Of the variants that were decided."""
        decided = self.killed + len(self.survivors)
        return self.killed / decided if decided else None

    def by_operator(self) -> dict[str, tuple[int, int]]:
        """Killed and decided, per operator."""
        killed = Counter(one.operator for one in self.tried if one.result == "killed")
        decided = Counter(one.operator for one in self.tried if one.result != "error")
        return {name: (killed[name], decided[name]) for name in sorted(decided)}


def audit(
    context: GradingContext, *, wanted: int = WANTED, workers: int = 1, tell: Callable[[str], None] = lambda _line: None
) -> Audit:
    """Grade nothing, the reference, and its wrong variants.

    Raises:
        SandboxError: ours.
    """
    context = context.unlogged()
    name = context.loaded.id
    tell(f"{name}: no work")
    try:
        baseline, _ = run_baseline(context)
        patch = reference_patch(context)
    except (TaskError, PatchInvalid) as error:
        return Audit(name, "error", "error", error.message)
    noop = baseline.outcome.value
    if patch is None:
        return Audit(name, noop, "none", "the task has no reference, so there is nothing to make variants of")
    tell(f"{name}: the reference")
    base = context.prepared.base_tree
    graded = grade(patch, context)
    if not graded.accepted:
        return Audit(name, noop, _result(graded).replace("killed", "fail"), why_not(graded))
    writes = apply(parse(patch), base)
    made = variants(base, writes, protected=context.loaded.task.oracle.protected or (), wanted=wanted)
    tell(f"{name}: {len(made)} wrong variants")
    with threads(workers, "audit", context.backend.close) as pool:
        tried = tuple(pool.map(lambda one: _try(one, context, writes), made))
    return Audit(name, noop, "pass", baseline.why, tried, tuple(_notes(tried, wanted)))


def _try(variant: Variant, context: GradingContext, reference: tuple[FileWrite, ...]) -> Tried:
    base = context.prepared.base_tree
    delta = extract(base, PatchedTree(base, variant.writes), generated=context.loaded.task.oracle.generated)
    graded = grade(delta.patch, context, decoys=False)
    result = _result(graded)
    return Tried(
        operator=variant.operator,
        path=path_text(variant.path)[0],
        line=variant.line,
        what=variant.what,
        result=result,
        why="" if graded.accepted else why_not(graded),
        diff=_difference(base, reference, variant.writes) if result == "survived" else "",
    )


def _result(graded: Acceptance) -> str:
    if graded.accepted:
        return "survived"
    outcomes = {one.outcome for one in (graded.application, *graded.steps)}
    outcomes |= {one.outcome for one in graded.checks if one.check.mandatory}
    refused = Outcome.FAIL in outcomes or any(one.severity == "gate" for one in graded.findings)
    return "killed" if refused else "error"


def _difference(base: Tree, reference: tuple[FileWrite, ...], variant: tuple[FileWrite, ...]) -> str:
    return extract(PatchedTree(base, reference), PatchedTree(base, variant)).patch.decode("utf-8", "replace")


def _notes(tried: tuple[Tried, ...], wanted: int) -> list[str]:
    operators = len({one.operator for one in tried})
    notes = []
    if len(tried) < wanted:
        notes.append(f"only {len(tried)} variants could be made of this reference")
    if len(tried) < LEAST or operators < OPERATORS:
        notes.append(
            f"a small audit: {len(tried)} variants over {operators} operators (wanted {LEAST} over {OPERATORS})"
        )
    return notes
