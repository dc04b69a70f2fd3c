"""The end of an attempt: decide from its log alone, assemble the record, seal both."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from agentbench.contract.identity import identify
from agentbench.core.ids import now_iso
from agentbench.core.reasons import Observability
from agentbench.record.recovery import ClosedAttempt
from agentbench.record.schema import ArtifactPaths, LimitsRecord, Model
from agentbench.record.sealing import close_attempt
from agentbench.run.attempt.evidence_files import write_evidence
from agentbench.run.attempt.log_entries import baseline_record
from agentbench.run.attempt.record import Attempted, assemble
from agentbench.run.version import harness_version
from agentbench.trace.events import TaskFinished
from agentbench.trace.log import read_events
from agentbench.verdict.decide import decide
from agentbench.verdict.facts import collect_facts

if TYPE_CHECKING:
    from agentbench.run.attempt.pipeline import Attempt

US = 1_000_000


def conclude(attempt: Attempt) -> ClosedAttempt:
    """Decide from the log as it was written, assemble the record, seal both."""
    facts = collect_facts(read_events(attempt.log.path))
    verdict = decide(facts, attempt.terms)
    attempt.log.append(verdict.event())
    duration = time.monotonic() - attempt.began
    ended_at = now_iso()
    attempt.log.append(
        TaskFinished(ended_at=ended_at, passed=verdict.passed, reason=verdict.reason, duration_us=int(duration * US))
    )
    paths = write_evidence(attempt.folder, attempt.row.task, attempt.log.path, attempt.setup_steps, attempt.baseline)
    return close_attempt(
        attempt.folder, attempt.log, assemble(_attempted(attempt, ended_at, duration, paths), facts, verdict)
    )


def _attempted(attempt: Attempt, ended_at: str, duration: float, paths: ArtifactPaths) -> Attempted:
    task, configuration, ground = attempt.row.task, attempt.row.configuration, attempt.ground
    ids = attempt.ids or identify(task)
    model = {name: one.value for name, one in configuration.settings.items()}
    return Attempted(
        harness_version=harness_version(),
        study_id=attempt.folder.study_id,
        run_id=attempt.folder.run_id,
        attempt_id=attempt.folder.attempt_id,
        supersedes=attempt.folder.supersedes,
        task_id=task.id,
        suite=task.task.suite,
        contract_id=ids.contract_id,
        task_digest=ids.task_digest,
        acceptance_id=ids.acceptance_id,
        env_digest=ground.prepared.digest if ground else None,
        config_class=attempt.place.config_class if attempt.place else None,
        variant=configuration.variant,
        agent=configuration.agent,
        repeat=attempt.row.repeat,
        seed=attempt.row.seed,
        observability=attempt.agent.observability if attempt.agent else Observability.PROCESS,
        model=Model.model_validate(
            {
                "provider": None if attempt.metered_model is None else attempt.metered_model.identity.provider,
                "name": model["model"] if attempt.metered_model is None else attempt.metered_model.identity.name,
                "prompt_version": None if attempt.agent is None else getattr(attempt.agent, "prompt_version", None),
                **{key: model[key] for key in ("temperature", "top_p", "max_tokens")},
            }
        ),
        prices=attempt.lab.models.prices,
        setup_runs=len(attempt.setup_steps) if attempt.setup_ran else 0,
        setup_us=sum(int(step.duration_sec * US) for step in attempt.setup_steps) if attempt.setup_ran else 0,
        evidence_bytes=attempt.folder.evidence_bytes(),
        started_at=attempt.started_at,
        ended_at=ended_at,
        duration_sec=duration,
        agent_sec=attempt.agent_sec,
        baseline=baseline_record(attempt.baseline),
        limits=LimitsRecord(
            timeout_sec=attempt.rules.caps.wall_sec, tool_timeout_sec=attempt.rules.caps.tool_timeout_sec
        ),
        paths=paths,
    )
