"""Runs all scorers of a task over one workspace."""

from __future__ import annotations

from collections.abc import Sequence

from agentbench.acceptance.scorers.registry import CHANGED_FILES, CHECKS
from agentbench.acceptance.scorers.workspace import ScorerVerdict, Workspace
from agentbench.contract.scorers import CommandSpec, LlmJudgeSpec, ScorerSpec
from agentbench.core.errors import AgentBenchError
from agentbench.trace.events import ScorerResult

PPM = 1_000_000


def run_scorers(specs: Sequence[ScorerSpec], workspace: Workspace) -> list[ScorerResult]:
    """Return one result per scorer, in their order.

    A failing scorer never ends the attempt: harness errors become ERROR. Commands run last, since they may change the
    tree that the other scorers examine.
    """
    ordered = sorted(range(len(specs)), key=lambda index: isinstance(specs[index], CommandSpec))
    verdicts = {index: _decide(specs[index], workspace) for index in ordered}
    return [_result(spec, verdicts[index]) for index, spec in enumerate(specs)]


def _decide(spec: ScorerSpec, workspace: Workspace) -> ScorerVerdict:
    if spec.type in CHANGED_FILES and workspace.unknown:
        # The agent is responsible for the tree: if its changes cannot be determined, the scorer fails.
        return ScorerVerdict("FAIL", f"changes cannot be determined: {workspace.unknown}")
    try:
        return CHECKS[spec.type](spec, workspace)
    except AgentBenchError as error:
        return ScorerVerdict("ERROR", error.message)
    except Exception as error:  # noqa: BLE001 - a bug in a scorer must not cost an attempt its verdict
        return ScorerVerdict("ERROR", f"{type(error).__name__}: {error}")


def _result(spec: ScorerSpec, verdict: ScorerVerdict) -> ScorerResult:
    return ScorerResult(
        name=spec.name,
        scorer_type=spec.type,
        required=spec.is_required and not isinstance(spec, LlmJudgeSpec),
        verdict=verdict.verdict,
        score_ppm=PPM if verdict.verdict == "PASS" else 0,
        detail=verdict.detail,
        command=spec.command if isinstance(spec, CommandSpec) else "",
    )
