"""Grades no work, the reference, and wrong variants of the reference, to measure how strict a task's checks are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from agentbench.acceptance.grade import grade
from agentbench.acceptance.grading_context import Acceptance, GradingContext
from agentbench.acceptance.mutation.variants import DEFAULT_VARIANTS, Variant, variants
from agentbench.acceptance.reference import reference_patch
from agentbench.acceptance.validation import run_baseline, why_not
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import PatchInvalid, TaskError
from agentbench.core.reasons import Outcome
from agentbench.core.threads import threads
from agentbench.tree.entry import FileWrite, Tree
from agentbench.workspace.diff.apply import PatchedTree, plan_writes
from agentbench.workspace.diff.events import path_text
from agentbench.workspace.diff.extract import extract
from agentbench.workspace.diff.parse import parse

MIN_VARIANTS = 20
MIN_OPERATORS = 5
"""An audit with fewer variants or operators is reported as small."""


@dataclass(frozen=True, slots=True)
class VariantResult:
    """One wrong variant and its result: `killed`, `survived`, or `error` (undecided because of a harness error)."""

    operator: str
    path: str
    line: int
    what: str
    result: str
    why: str
    diff: str
    """Difference to the reference, only for survivors."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The audit of one task.

    `noop` must be fail; it may be pass or error. `reference` must be pass; it may be fail, error or none.
    """

    task_id: str
    noop: str
    reference: str
    why: str
    tried: tuple[VariantResult, ...] = ()
    notes: tuple[str, ...] = ()
    decoy_coverage: float | None = None
    """Share of fail-to-pass tests with a decoy test."""

    @property
    def sound(self) -> bool:
        """Return whether no work fails and the reference passes."""
        return self.noop == "fail" and self.reference == "pass"

    @property
    def killed(self) -> int:
        return sum(variant.result == "killed" for variant in self.tried)

    @property
    def survivors(self) -> tuple[VariantResult, ...]:
        return tuple(variant for variant in self.tried if variant.result == "survived")

    @property
    def kill_rate(self) -> float | None:
        """Return the share of decided variants that were killed."""
        decided = self.killed + len(self.survivors)
        return self.killed / decided if decided else None

    def by_operator(self) -> dict[str, tuple[int, int]]:
        """Return the number of killed and of decided variants per operator."""
        killed = Counter(variant.operator for variant in self.tried if variant.result == "killed")
        decided = Counter(variant.operator for variant in self.tried if variant.result != "error")
        return {name: (killed[name], decided[name]) for name in sorted(decided)}


def audit(
    context: GradingContext,
    *,
    wanted: int = DEFAULT_VARIANTS,
    workers: int = 1,
    report: Callable[[str], None] = lambda _line: None,
) -> Audit:
    """Grade no work, the reference, and its wrong variants.

    Raises:
        SandboxError: the sandbox failed.
    """
    context = context.unlogged()
    name = context.loaded.id
    report(f"{name}: grading no work")
    try:
        baseline, _ = run_baseline(context)
        patch = reference_patch(context)
    except (TaskError, PatchInvalid) as error:
        return Audit(name, "error", "error", error.message)
    noop = baseline.outcome.value
    if patch is None:
        return Audit(name, noop, "none", "the task has no reference to create variants of")
    report(f"{name}: grading the reference")
    base = context.prepared.base_tree
    graded = grade(patch, context)
    if not graded.accepted:
        return Audit(
            name, noop, _result(graded).replace("killed", "fail"), why_not(graded), decoy_coverage=graded.decoy_coverage
        )
    writes = plan_writes(parse(patch), base).writes
    wrong_variants = variants(base, writes, protected=context.loaded.task.oracle.protected or (), wanted=wanted)
    report(f"{name}: grading {len(wrong_variants)} wrong variants")
    with threads(workers, "audit", context.backend.close) as pool:
        tried = tuple(pool.map(lambda variant: _grade_variant(variant, context, writes), wrong_variants))
    return Audit(name, noop, "pass", baseline.why, tried, tuple(_notes(tried, wanted)), graded.decoy_coverage)


def _grade_variant(variant: Variant, context: GradingContext, reference: tuple[FileWrite, ...]) -> VariantResult:
    base = context.prepared.base_tree
    extracted = extract(base, PatchedTree(base, variant.writes), generated=context.loaded.task.oracle.generated)
    graded = grade(extracted.patch, context, decoys=False)
    result = _result(graded)
    return VariantResult(
        operator=variant.operator,
        path=path_text(variant.path)[0],
        line=variant.line,
        what=variant.what,
        result=result,
        why="" if graded.accepted else why_not(graded),
        diff=_diff(base, reference, variant.writes) if result == "survived" else "",
    )


def _result(graded: Acceptance) -> str:
    if graded.accepted:
        return "survived"
    outcomes = {step.outcome for step in (graded.application, *graded.steps)}
    outcomes |= {result.outcome for result in graded.checks if result.check.mandatory}
    refused = Outcome.FAIL in outcomes or any(finding.severity == "gate" for finding in graded.findings)
    return "killed" if refused else "error"


def _diff(base: Tree, reference: tuple[FileWrite, ...], variant: tuple[FileWrite, ...]) -> str:
    return extract(PatchedTree(base, reference), PatchedTree(base, variant)).patch.decode("utf-8", "replace")


def _notes(tried: tuple[VariantResult, ...], wanted: int) -> list[str]:
    operators = len({variant.operator for variant in tried})
    notes = []
    if len(tried) < wanted:
        notes.append(f"only {len(tried)} variants could be created from this reference")
    if len(tried) < MIN_VARIANTS or operators < MIN_OPERATORS:
        notes.append(
            f"small audit: {len(tried)} variants with {operators} operators (recommended: {MIN_VARIANTS} with {MIN_OPERATORS})"
        )
    return notes
