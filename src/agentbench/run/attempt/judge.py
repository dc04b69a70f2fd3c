"""The judge of an attempt: which model it is, what it gets to read, and where its exchanges are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agentbench.acceptance.judge.ask import Judgement, conclude, judge
from agentbench.acceptance.judge.evidence import Case
from agentbench.contract.load import LoadedTask
from agentbench.contract.schema import Judge
from agentbench.contract.scorers import LlmJudgeSpec, scorer_spec
from agentbench.core.errors import AgentBenchError, InputError, Interrupted
from agentbench.models.metered_model import MeteredModel
from agentbench.models.recording.recorded import Recording, recording_of
from agentbench.record.attempt_folder import EVENTS
from agentbench.record.run_directory import RunDirectory
from agentbench.run.models import Models
from agentbench.run.plan import PlanRow
from agentbench.trace.blobs import LIMIT, BlobStore
from agentbench.trace.blobs import excerpt as take_excerpt
from agentbench.trace.events import (
    Actor,
    Excerpt,
    JudgeExchange,
    JudgeResult,
    LlmRequest,
    LlmResponse,
    Payload,
)
from agentbench.trace.log import read_events

OPTION = "--judge-model"


@dataclass
class _Kept:
    """A sink beside the log: what the judge uses is no part of what the agent used, and no monitor listens to it."""

    blobs: BlobStore
    payloads: list[Payload] = field(default_factory=list)

    def write(self, payload: Payload, actor: Actor = "harness") -> int:
        self.payloads.append(payload)
        return len(self.payloads)

    def excerpt(self, data: bytes, *, limit: int = LIMIT) -> Excerpt:
        return take_excerpt(data, store=self.blobs, limit=limit)

    def exchanges(self) -> Iterator[JudgeExchange]:
        answers = {one.request_id: one for one in self.payloads if isinstance(one, LlmResponse)}
        for one in self.payloads:
            if isinstance(one, LlmRequest):
                yield JudgeExchange(request=one, response=answers.get(one.request_id))


@dataclass(frozen=True, slots=True)
class JudgeChoice:
    """The judge of a study."""

    model: str
    """As `--model` has it."""
    times: int = 1

    def require(self, row: PlanRow, models: Models) -> None:
        """
        Raises:
            InputError: it cannot be asked: a missing key, script or recording.
        """
        if judge_enabled(row.task):
            choice = models.choose(self.model, row, OPTION)
            models.check(choice)
            if choice.source == "recorded":
                recorded_judge(Path(choice.name), row)

    def ask(self, row: PlanRow, models: Models, patch: bytes, log: Path, blobs: BlobStore) -> JudgeResult:
        """Judge what the log and the patch tell. The verdict is already taken: no trouble here may cost the attempt anything."""
        try:
            return self._ask(row, models, patch, log, blobs)
        except Interrupted:
            raise
        except Exception as error:  # noqa: BLE001 - a judge that broke is an unparseable verdict, never a failed run
            why = Judgement(
                None, error.message if isinstance(error, AgentBenchError) else f"{type(error).__name__}: {error}"
            )
            return conclude((why,), self.model, (row.task.judge or Judge()).expected_outcome)

    def _ask(self, row: PlanRow, models: Models, patch: bytes, log: Path, blobs: BlobStore) -> JudgeResult:
        kept = _Kept(blobs)
        choice = models.choose(self.model, row, OPTION)
        recording = recorded_judge(Path(choice.name), row) if choice.source == "recorded" else None
        metered_model: MeteredModel = models.judge_model(choice, row, kept, recording)
        about = row.task.judge or Judge()
        patch = models.redact.data(patch) if models.redact else patch
        try:
            said = judge(models.plain(metered_model, choice), case_of(row.task, about, patch, log), times=self.times)
        finally:
            metered_model.close()
        return conclude(said, metered_model.identity.name, about.expected_outcome, tuple(kept.exchanges()), blobs)


def judge_enabled(task: LoadedTask) -> bool:
    return task.judge is None or task.judge.enabled


def case_of(task: LoadedTask, about: Judge, patch: bytes, log: Path) -> Case:
    specs = [scorer_spec(scorer) for scorer in task.scorers]
    notes = [about.rubric, *(spec.rubric for spec in specs if isinstance(spec, LlmJudgeSpec))]
    return Case(
        statement=task.statement,
        expected_outcome=about.expected_outcome,
        notes=tuple(note for note in notes if note.strip()),
        events=[event.payload for event in read_events(log)],
        patch=patch,
        turns=task.task.turns,
        workspace=task.task.repo != "none",
    )


def recorded_judge(run: Path, row: PlanRow) -> Recording:
    """
    Raises:
        InputError: the run has no judgement of such an attempt.
    """
    for record in RunDirectory.open(run).finals():
        if (record.task_id, record.repeat) == (row.task.id, row.repeat):
            folder = run / record.artifact_paths.task_dir
            for event in read_events(folder / EVENTS, types={JudgeResult.type}):
                if isinstance(event.payload, JudgeResult):
                    return recording_of(_flat(event.payload), folder / EVENTS, BlobStore(folder / "blobs"))
    msg = f"{run} has no judgement of task {row.task.id}, repeat {row.repeat}, that could be replayed"
    raise InputError(msg)


def _flat(result: JudgeResult) -> Iterator[Payload]:
    for one in result.exchanges:
        yield one.request
        if one.response is not None:
            yield one.response
