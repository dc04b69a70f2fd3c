"""Writes what decisions depend on into a manifest, from which `recompute` reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from agentbench.contract.schema import StageMode
from agentbench.policy.limits import Limits
from agentbench.policy.monitor_rules import ContractRules, published_rules
from agentbench.record.manifest import GradingPlan, GuardPlan
from agentbench.verdict.terms import Terms, published_rubric


def grading_plan(terms: Terms) -> GradingPlan:
    """Return the part of the terms that the manifest stores besides the checks and commands."""
    weights = terms.rubric.weights
    return GradingPlan(
        penalty_lambda=terms.lambda_,
        envelope_files=terms.envelope_files,
        envelope_lines=terms.envelope_lines,
        weights=None if weights == published_rubric().weights else asdict(weights),
        cap_active_sec=terms.caps.active_sec,
        cap_tool_calls=terms.caps.tool_calls,
        cap_tokens=terms.caps.tokens,
        cap_usd=terms.caps.usd,
        needs_briefing=terms.needs_briefing,
        tag_notes=terms.tag_notes,
    )


def guard_plan(
    limits: Limits,
    contract: ContractRules,
    stages: tuple[str, ...],
    stage_mode: StageMode,
    not_applicable: Mapping[str, str],
) -> GuardPlan:
    """Return the inputs of breakers and monitors that the manifest stores."""
    return GuardPlan(
        thresholds=asdict(limits.thresholds),
        monitors=published_rules().digest,
        wall_us=limits.wall_us,
        max_installs=limits.max_installs,
        stages=stages,
        stage_mode=stage_mode,
        stages_enforced=stage_mode == "strict",
        not_applicable=dict(not_applicable),
        stops_enforced=limits.stops_enforced,
        **asdict(limits.budget),
        **asdict(contract),
    )
