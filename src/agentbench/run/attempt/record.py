"""From a decided attempt to its record. No decision is made here: numbers and words are taken from the trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agentbench.core.reasons import Observability, TerminationCode
from agentbench.policy.costs import Costs, Metered, itemise
from agentbench.policy.prices import Prices
from agentbench.record.attempt_folder import FINAL_PATCH
from agentbench.record.schema import (
    ArtifactPaths,
    AttemptRecord,
    BaselineValidation,
    CheckRecord,
    Components,
    Cost,
    Fact,
    Judge,
    LimitsRecord,
    Model,
    Patch,
    Progress,
    Result,
    ScorerRecord,
    Tag,
    TerminationRecord,
    Timestamps,
    Usage,
)
from agentbench.trace.events import AcceptanceCheck, LlmResponse
from agentbench.verdict.decide import Verdict
from agentbench.verdict.facts import Facts

US = 1_000_000


@dataclass(frozen=True, slots=True)
class Attempted:
    """What surrounds the decision: who, what, when, where."""

    harness_version: str
    study_id: str
    run_id: str
    attempt_id: str
    supersedes: str | None
    task_id: str
    suite: str
    contract_id: str
    task_digest: str
    acceptance_id: str
    env_digest: str | None
    config_class: str | None
    variant: str
    agent: str
    repeat: int
    seed: int
    observability: Observability
    model: Model
    prices: Prices
    started_at: str
    ended_at: str
    duration_sec: float
    agent_sec: float
    baseline: BaselineValidation
    limits: LimitsRecord
    paths: ArtifactPaths
    setup_runs: int = 0
    """Setup commands that ran for this attempt, not for an earlier one."""
    setup_us: int = 0
    evidence_bytes: int = 0

    def metered(self, facts: Facts) -> Metered:
        """What this attempt's cost is made of."""
        steps = [
            *(one.payload.duration_us for one in facts.builds),
            *(one.payload.duration_us for one in facts.statics),
            *(one.payload.duration_us for one in facts.checks),
        ]
        return Metered(
            lm_micro=facts.usage.cost_micro_usd,
            tool_calls=facts.usage.tool_calls,
            tool_us=facts.usage.tool_us,
            steps=len(steps) + self.setup_runs,
            step_us=sum(steps) + self.setup_us,
            evidence_bytes=self.evidence_bytes,
            judge_micro=sum(one.cost_micro_usd for one in _judge_answers(facts)),
        )


def assemble(attempted: Attempted, facts: Facts, verdict: Verdict) -> AttemptRecord:
    """The record of INTERFACE: every field from the trace or from what surrounds it."""
    checks = [one.payload for one in facts.checks]
    score = verdict.score.value if verdict.score is not None else None
    parts = verdict.components
    return AttemptRecord(
        harness_version=attempted.harness_version,
        study_id=attempted.study_id,
        run_id=attempted.run_id,
        attempt_id=attempted.attempt_id,
        supersedes=attempted.supersedes,
        task_id=attempted.task_id,
        suite=attempted.suite,
        contract_id=attempted.contract_id,
        task_digest=attempted.task_digest,
        acceptance_id=attempted.acceptance_id,
        env_digest=attempted.env_digest,
        config_class=attempted.config_class,
        variant=attempted.variant,
        agent=attempted.agent,
        repeat=attempted.repeat,
        seed=attempted.seed,
        observability=attempted.observability,
        model=attempted.model,
        timestamps=Timestamps(started_at=attempted.started_at, ended_at=attempted.ended_at),
        duration_sec=round(attempted.duration_sec, 6),
        baseline_validation=attempted.baseline,
        result=Result(passed=verdict.passed, exit_code=_exit_code(checks), failure_reason=verdict.reason),
        run_status=verdict.run_status,
        invalid_cause=verdict.invalid_cause,
        attribution=verdict.attribution,
        run_badge=verdict.run_badge,
        needs_review=verdict.needs_review,
        patch=_patch(facts, attempted.paths.task_dir),
        checks=tuple(_check(one) for one in checks),
        progress=_progress(verdict),
        gates=dict(verdict.gates),
        score=score,
        decomposed_score=verdict.decomposed,
        rubric=verdict.rubric,
        components=Components(
            correctness=parts.correctness, validity=parts.validity, safety=parts.safety, efficiency=parts.efficiency
        ),
        tags=_tags(verdict),
        scorers=_scorers(facts),
        workspace_verdict=verdict.workspace.verdict,
        mean_score=verdict.workspace.mean_score,
        judge=_judge(facts),
        termination=_termination(verdict),
        limits=attempted.limits,
        usage=_usage(facts, attempted.agent_sec),
        cost=_cost(itemise(attempted.metered(facts), attempted.prices), attempted.prices),
        artifact_paths=attempted.paths,
    )


def _progress(verdict: Verdict) -> Progress:
    made = verdict.progress
    return Progress(
        f2p_passed=made.f2p_passed, f2p_total=made.f2p_total, p2p_kept=made.p2p_kept, p2p_total=made.p2p_total
    )


def _tags(verdict: Verdict) -> tuple[Tag, ...]:
    return tuple(
        Tag(id=tag.id, gate=tag.gate, evidence=tuple(tag.evidence), attributes=dict(tag.attributes))
        for tag in verdict.tags
    )


def _scorers(facts: Facts) -> tuple[ScorerRecord, ...]:
    return tuple(
        ScorerRecord(
            name=one.payload.name,
            type=one.payload.scorer_type,
            required=one.payload.required,
            verdict=one.payload.verdict,
            score=one.payload.score_ppm / US,
            detail=one.payload.detail,
        )
        for one in facts.scorers
    )


def _usage(facts: Facts, agent_sec: float) -> Usage:
    used = facts.usage
    return Usage(
        prompt_tokens=used.prompt_tokens,
        completion_tokens=used.completion_tokens,
        cached_tokens=used.cached_tokens,
        model_requests=used.model_requests,
        tool_calls=used.tool_calls,
        test_cycles=used.test_cycles,
        wall_sec=round(agent_sec, 6),
        tool_sec=used.tool_us / US,
        check_sec=used.check_us / US,
    )


def _cost(costs: Costs, prices: Prices) -> Cost:
    return Cost(
        lm=costs.lm / US,
        exec=costs.exec / US,
        human=costs.human / US,
        overhead=costs.overhead / US,
        judge=costs.judge / US,
        total=costs.total / US,
        unit=prices.unit,
        method_id=prices.method_id,
    )


def _exit_code(checks: Iterable[AcceptanceCheck]) -> int | None:
    """Of the mandatory checks that ran: the first that is not 0, else that of the last."""
    codes = [one.exit_code for one in checks if one.mandatory and one.exit_code is not None]
    return next((code for code in codes if code != 0), codes[-1] if codes else None)


def _patch(facts: Facts, task_dir: str) -> Patch | None:
    if facts.patch is None:
        return None
    delta = facts.patch.payload
    return Patch(
        path=f"{task_dir}/{FINAL_PATCH}",
        sha256=delta.sha256,
        files=sum(not one.generated for one in delta.files) + delta.omitted,
        added=delta.added,
        removed=delta.removed,
    )


def _check(one: AcceptanceCheck) -> CheckRecord:
    return CheckRecord.model_validate(
        {
            "id": one.check_id,
            "layer": one.layer,
            "mandatory": one.mandatory,
            "outcome": one.outcome,
            "assurance": one.assurance,
            "command": one.command,
            "exit_code": one.exit_code,
            "started_at": one.started_at,
            "duration_sec": one.duration_us / US,
            "ceiling_sec": one.ceiling_us / US,
            "stdout_sha256": one.stdout_sha256,
            "stderr_sha256": one.stderr_sha256,
            "failing_tests": one.failing_tests,
            "why": one.why,
        }
    )


def _judge(facts: Facts) -> Judge | None:
    if facts.judge is None:
        return None
    said = facts.judge.payload
    return Judge(
        verdict=said.verdict,
        task_completion=said.scores.get("task_completion"),
        instruction_adherence=said.scores.get("instruction_adherence"),
        efficiency=said.scores.get("efficiency"),
        failure_mode=said.failure_mode,
        facts=tuple(Fact(claim=one.claim, verdict=one.verdict, evidence=one.evidence) for one in said.facts),
        reasoning=said.reasoning.text,
        model=said.model,
        scored_at=said.scored_at,
        verdicts=tuple(said.verdicts) if len(said.verdicts) > 1 else (),
        agreement=None if said.agreement_ppm is None else said.agreement_ppm / US,
        prompt_tokens=sum(one.prompt_tokens for one in _judge_answers(facts)),
        completion_tokens=sum(one.completion_tokens for one in _judge_answers(facts)),
    )


def _judge_answers(facts: Facts) -> list[LlmResponse]:
    said = facts.judge.payload.exchanges if facts.judge else []
    return [one.response for one in said if one.response is not None]


def _termination(verdict: Verdict) -> TerminationRecord:
    if verdict.termination is None:
        return TerminationRecord(code=TerminationCode.SANDBOX_ERROR, rationale="the attempt left no termination event")
    ending = verdict.termination.payload
    return TerminationRecord(
        code=ending.code, category=ending.category, rationale=ending.rationale, evidence=tuple(ending.evidence)
    )
