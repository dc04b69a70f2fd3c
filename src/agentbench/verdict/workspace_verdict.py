"""The workspace verdict over scorer results (S): shown beside the gates, never part of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentbench.verdict.facts import Facts

PPM = 1_000_000


@dataclass(frozen=True, slots=True)
class WorkspaceVerdict:
    """`N/A` when no scorer applied. The mean is over the scorers that applied and were decided."""

    verdict: Literal["PASS", "FAIL", "N/A"]
    mean_score: float | None


def workspace_verdict(facts: Facts) -> WorkspaceVerdict:
    """FAIL when a required scorer that applied failed. Our own trouble (`ERROR`) and advisory scorers never fail it."""
    decided = [one.payload for one in facts.scorers if one.payload.verdict in {"PASS", "FAIL"}]
    if not decided:
        return WorkspaceVerdict("N/A", None)
    failed = any(one.required and one.verdict == "FAIL" and one.scorer_type != "llm_judge" for one in decided)
    mean = sum(one.score_ppm for one in decided) / len(decided) / PPM
    return WorkspaceVerdict("FAIL" if failed else "PASS", round(mean, 6))
