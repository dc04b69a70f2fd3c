"""The workspace verdict over scorer results. It is shown beside the gates and never changes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentbench.verdict.facts import Facts

PPM = 1_000_000


@dataclass(frozen=True, slots=True)
class WorkspaceVerdict:
    """`N/A` if no scorer applied. The mean covers the scorers that applied and reached a decision."""

    verdict: Literal["PASS", "FAIL", "N/A"]
    mean_score: float | None


def workspace_verdict(facts: Facts) -> WorkspaceVerdict:
    """Return FAIL if a required scorer failed. Harness errors (`ERROR`) and advisory scorers never cause a FAIL."""
    results = [event.payload for event in facts.scorers if event.payload.verdict in {"PASS", "FAIL"}]
    if not results:
        return WorkspaceVerdict("N/A", None)
    failed = any(
        result.required and result.verdict == "FAIL" and result.scorer_type != "llm_judge" for result in results
    )
    mean = sum(result.score_ppm for result in results) / len(results) / PPM
    return WorkspaceVerdict("FAIL" if failed else "PASS", round(mean, 6))
