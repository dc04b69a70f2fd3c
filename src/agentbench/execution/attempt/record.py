"""Build the record of an attempt from its facts and its verdict. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Iterable

from agentbench.acceptance.validation import Baseline
from agentbench.core.reasons import TerminationCode
from agentbench.execution.attempt.base import US, Attempt
from agentbench.execution.version import harness_version
from agentbench.policy.costs import Costs
from agentbench.record.attempt_folder import FINAL_PATCH
from agentbench.record.cost import cost_record
from agentbench.record.schema import (
    ArtifactPaths,
    AttemptRecord,
    BaselineValidation,
    CheckRecord,
    Components,
    Fact,
    Judge,
    LimitsRecord,
    Patch,
    Progress,
    Result,
    ScorerRecord,
    Tag,
    TerminationRecord,
    Timestamps,
    Usage,
)
from agentbench.trace.events import AcceptanceCheck, LlmResponse, TaskFinished
from agentbench.verdict.decide import Verdict
from agentbench.verdict.facts import Facts

PPM = 1_000_000


def build_record(
    attempt: Attempt, facts: Facts, verdict: Verdict, finished: TaskFinished, paths: ArtifactPaths, costs: Costs
) -> AttemptRecord:
    """Build the record from the attempt, the facts in its log and the verdict."""
    prices = attempt.lab.models.prices
    row, folder, ids, caps = attempt.row, attempt.folder, attempt.ids, attempt.rules.caps
    checks = [check.payload for check in facts.checks]
    return AttemptRecord(
        harness_version=harness_version(),
        study_id=folder.study_id,
        run_id=folder.run_id,
        attempt_id=folder.attempt_id,
        supersedes=folder.supersedes,
        task_id=row.task.id,
        suite=row.task.task.suite,
        contract_id=ids.contract_id,
        task_digest=ids.task_digest,
        acceptance_id=ids.acceptance_id,
        env_digest=attempt.env_digest,
        config_class=attempt.config_class,
        variant=row.configuration.variant,
        agent=row.configuration.agent,
        repeat=row.repeat,
        seed=row.seed,
        observability=attempt.recorded_observability(),
        commands=None if verdict.commands is None else verdict.commands.status,
        commands_why="" if verdict.commands is None else verdict.commands.why,
        model=attempt.model_record(),
        timestamps=Timestamps(started_at=attempt.started_at, ended_at=finished.ended_at),
        duration_sec=finished.duration_us / US,
        baseline_validation=_baseline(attempt.baseline),
        result=Result(passed=verdict.passed, exit_code=_exit_code(checks), failure_reason=verdict.reason),
        run_status=verdict.run_status,
        invalid_cause=verdict.invalid_cause,
        attribution=verdict.attribution,
        run_badge=verdict.run_badge,
        needs_review=verdict.needs_review,
        patch=_patch(facts, paths.task_dir),
        checks=tuple(_check(check) for check in checks),
        progress=Progress.of(verdict.progress),
        decoy_coverage=_decoy_coverage(checks),
        gates=dict(verdict.gates),
        score=None if verdict.score is None else verdict.score.value,
        decomposed_score=verdict.decomposed,
        rubric=verdict.rubric,
        components=Components.of(verdict.components),
        tags=tuple(map(Tag.of, verdict.tags)),
        scorers=_scorers(facts),
        workspace_verdict=verdict.workspace.verdict,
        mean_score=verdict.workspace.mean_score,
        judge=_judge(facts),
        termination=_termination(verdict),
        limits=LimitsRecord(timeout_sec=caps.wall_sec, tool_timeout_sec=caps.tool_timeout_sec),
        usage=_usage(facts, attempt.agent_sec),
        cost=cost_record(costs, prices.unit, prices.method_id),
        artifact_paths=paths,
    )


def _baseline(report: Baseline | None) -> BaselineValidation:
    if report is None:
        return BaselineValidation()
    return BaselineValidation(
        attempted=True, failed_as_expected=report.failed_as_expected, exit_code=report.exit_code, cached=report.cached
    )


def _scorers(facts: Facts) -> tuple[ScorerRecord, ...]:
    return tuple(
        ScorerRecord(
            name=scorer.payload.name,
            type=scorer.payload.scorer_type,
            required=scorer.payload.required,
            verdict=scorer.payload.verdict,
            score=scorer.payload.score_ppm / PPM,
            detail=scorer.payload.detail,
        )
        for scorer in facts.scorers
    )


def _usage(facts: Facts, agent_sec: float) -> Usage:
    seconds = {
        "wall_sec": round(agent_sec, 6),
        "tool_sec": facts.usage.tool_us / US,
        "check_sec": facts.usage.check_us / US,
    }
    return Usage.of(facts.usage).model_copy(update=seconds)


def _exit_code(checks: Iterable[AcceptanceCheck]) -> int | None:
    """Return the first nonzero exit code of the mandatory checks that ran, else that of the last one."""
    codes = [check.exit_code for check in checks if check.mandatory and check.exit_code is not None]
    return next((code for code in codes if code != 0), codes[-1] if codes else None)


def _patch(facts: Facts, task_dir: str) -> Patch | None:
    if facts.patch is None:
        return None
    patch = facts.patch.payload
    return Patch(
        path=f"{task_dir}/{FINAL_PATCH}",
        sha256=patch.sha256,
        files=sum(not file.generated for file in patch.files) + patch.omitted,
        added=patch.added,
        removed=patch.removed,
    )


def _check(check: AcceptanceCheck) -> CheckRecord:
    seconds = {"duration_sec": check.duration_us / US, "ceiling_sec": check.ceiling_us / US}
    shared = check.model_dump(include=set(CheckRecord.model_fields))
    return CheckRecord.model_validate({**shared, **seconds, "id": check.check_id})


def _decoy_coverage(checks: Iterable[AcceptanceCheck]) -> float | None:
    counted = [_check(check) for check in checks if check.mandatory]
    with_tests = [check for check in counted if check.decoy_coverage is not None]
    total = sum(check.f2p_total or 0 for check in with_tests)
    return sum(check.decoys or 0 for check in with_tests) / total if total else None


def _judge(facts: Facts) -> Judge | None:
    if facts.judge is None:
        return None
    judge = facts.judge.payload
    return Judge(
        verdict=judge.verdict,
        task_completion=judge.scores.get("task_completion"),
        instruction_adherence=judge.scores.get("instruction_adherence"),
        efficiency=judge.scores.get("efficiency"),
        failure_mode=judge.failure_mode,
        facts=tuple(map(Fact.of, judge.facts)),
        reasoning=judge.reasoning.text,
        model=judge.model,
        scored_at=judge.scored_at,
        verdicts=tuple(judge.verdicts) if len(judge.verdicts) > 1 else (),
        agreement=None if judge.agreement_ppm is None else judge.agreement_ppm / PPM,
        prompt_tokens=sum(answer.prompt_tokens for answer in _judge_answers(facts)),
        completion_tokens=sum(answer.completion_tokens for answer in _judge_answers(facts)),
    )


def _judge_answers(facts: Facts) -> list[LlmResponse]:
    exchanges = facts.judge.payload.exchanges if facts.judge else []
    return [exchange.response for exchange in exchanges if exchange.response is not None]


def _termination(verdict: Verdict) -> TerminationRecord:
    if verdict.termination is None:
        return TerminationRecord(code=TerminationCode.SANDBOX_ERROR, rationale="no termination event in the log")
    return TerminationRecord.of(verdict.termination.payload)
