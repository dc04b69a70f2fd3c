"""All scorers of a task over one workspace."""

from __future__ import annotations

from collections.abc import Sequence

from agentbench.acceptance.scorers.registry import CHANGED_FILES, CHECKS
from agentbench.acceptance.scorers.workspace import Found, Workspace
from agentbench.contract.scorers import CommandSpec, LlmJudgeSpec, ScorerSpec
from agentbench.core.errors import AgentBenchError
from agentbench.trace.events import ScorerResult

PPM = 1_000_000


def run_scorers(specs: Sequence[ScorerSpec], workspace: Workspace) -> list[ScorerResult]:
    """One result per scorer, in their order. Nothing a scorer meets ends the attempt: our trouble is an ERROR.

    Commands come last, since they may change the tree that the others look at.
    """
    ordered = sorted(range(len(specs)), key=lambda index: isinstance(specs[index], CommandSpec))
    found = {index: _decide(specs[index], workspace) for index in ordered}
    return [_result(spec, found[index]) for index, spec in enumerate(specs)]


def _decide(spec: ScorerSpec, workspace: Workspace) -> Found:
    if spec.type in CHANGED_FILES and workspace.unknown:
        # The agent made the tree what it is: that nobody can say what changed is not in its favour.
        return Found("FAIL", f"what changed cannot be told: {workspace.unknown}")
    try:
        return CHECKS[spec.type](spec, workspace)
    except AgentBenchError as error:
        return Found("ERROR", error.message)
    except Exception as error:  # noqa: BLE001 - a bug of ours in a scorer must not cost an attempt its verdict
        return Found("ERROR", f"{type(error).__name__}: {error}")


def _result(spec: ScorerSpec, found: Found) -> ScorerResult:
    return ScorerResult(
        name=spec.name,
        scorer_type=spec.type,
        required=spec.is_required and not isinstance(spec, LlmJudgeSpec),
        verdict=found.verdict,
        score_ppm=PPM if found.verdict == "PASS" else 0,
        detail=found.detail,
        command=spec.command if isinstance(spec, CommandSpec) else "",
    )
