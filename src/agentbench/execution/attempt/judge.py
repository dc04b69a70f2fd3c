"""Ask a judge model for its opinion of an attempt. It never affects the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from pathlib import Path

from agentbench.acceptance.judge.ask import Judgement, conclude, judge
from agentbench.acceptance.judge.evidence import Case
from agentbench.contract.load import LoadedTask
from agentbench.contract.schema import Judge
from agentbench.contract.scorers import LlmJudgeSpec, scorer_spec
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentBenchError, InputError, Interrupted
from agentbench.execution.models import Models, recorded_folder
from agentbench.execution.plan import PlanRow
from agentbench.models.presets import ModelChoice
from agentbench.models.recording.recorded import Recording, recording_of
from agentbench.record.attempt_folder import EVENTS
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
from agentbench.trace.redaction import redact_bytes

OPTION = "--judge-model"


@dataclass
class _JudgeSink:
    """Collects the judge's exchanges apart from the log, so that they do not count as the agent's and no monitor sees them."""

    blobs: BlobStore
    payloads: list[Payload] = field(default_factory=list)

    def write(self, payload: Payload, actor: Actor = "harness", *, unless: Callable[[], bool] | None = None) -> int:
        if unless is not None and unless():
            return 0
        self.payloads.append(payload)
        return len(self.payloads)

    def excerpt(self, data: bytes, *, limit: int = LIMIT, original: bytes | None = None) -> Excerpt:
        return take_excerpt(data, store=self.blobs, limit=limit, original=original)

    def exchanges(self) -> Iterator[JudgeExchange]:
        responses = {payload.request_id: payload for payload in self.payloads if isinstance(payload, LlmResponse)}
        for payload in self.payloads:
            if isinstance(payload, LlmRequest):
                yield JudgeExchange(request=payload, response=responses.get(payload.request_id))


@dataclass(frozen=True, slots=True)
class JudgeChoice:
    """The judge model of a study, and how often it is asked."""

    model: str
    """In the form of `--model`."""
    times: int = 1

    def choice(self, row: PlanRow, models: Models) -> ModelChoice:
        return models.choose(self.model, row, OPTION)

    def require(self, row: PlanRow, models: Models) -> None:
        """Check that the judge can be used for an attempt.

        Raises:
            InputError: a missing API key, script or recording.
        """
        if row.task.judge_enabled:
            choice = self.choice(row, models)
            models.factory.check(choice)
            if choice.source == "recorded":
                recorded_judge(Path(choice.name), row)

    def ask(
        self, row: PlanRow, models: Models, patch: bytes, events: Callable[[], Sequence[Payload]], blobs: BlobStore
    ) -> JudgeResult:
        """Judge an attempt by its events and its patch. The verdict is already decided, so no error here may affect the attempt."""
        try:
            return self._ask(row, models, patch, events, blobs)
        except Interrupted:
            raise
        except Exception as error:  # noqa: BLE001 - a judge that fails gives no opinion; the attempt stands
            why = error.message if isinstance(error, AgentBenchError) else f"{type(error).__name__}: {error}"
            return conclude((Judgement(None, why),), self.model, (row.task.judge or Judge()).expected_outcome)

    def _ask(
        self, row: PlanRow, models: Models, patch: bytes, events: Callable[[], Sequence[Payload]], blobs: BlobStore
    ) -> JudgeResult:
        sink = _JudgeSink(blobs)
        choice = self.choice(row, models)
        metered_model = models.judge_model(choice, row, sink, blobs.redact, judge_recording)
        settings = row.task.judge or Judge()
        patch = redact_bytes(patch, blobs.redact)
        try:
            # The preset's sampling settings, whatever those of the agent are.
            model = models.factory.model(metered_model, choice.sampling)
            judgements = judge(model, case_of(row.task, settings, patch, events()), times=self.times)
        finally:
            metered_model.close()
        return conclude(
            judgements, metered_model.identity.name, settings.expected_outcome, tuple(sink.exchanges()), blobs
        )


def case_of(task: LoadedTask, settings: Judge, patch: bytes, events: Sequence[Payload]) -> Case:
    specs = [scorer_spec(scorer) for scorer in task.scorers]
    notes = [settings.rubric, *(spec.rubric for spec in specs if isinstance(spec, LlmJudgeSpec))]
    return Case(
        statement=task.statement,
        expected_outcome=settings.expected_outcome,
        notes=tuple(note for note in notes if note.strip()),
        events=events,
        patch=patch,
        turns=task.task.turns,
        workspace=task.task.repo != "none",
    )


def judge_recording(choice: ModelChoice, row: PlanRow) -> Recording | None:
    """Return the recording that a judge model repeats; None if it is not `recorded:`."""
    return recorded_judge(Path(choice.name), row) if choice.source == "recorded" else None


def recorded_judge(run: Path, row: PlanRow) -> Recording:
    """Read the judge's recorded exchanges for the same task and repeat from another run.

    Raises:
        InputError: the run has no judgement of such an attempt.
    """
    folder = recorded_folder(run, row)
    if folder is not None:
        for event in read_events(folder / EVENTS, types={JudgeResult.type}):
            if isinstance(event.payload, JudgeResult):
                exchanges = ((exchange.request, exchange.response) for exchange in event.payload.exchanges)
                payloads = (payload for exchange in exchanges for payload in exchange if payload is not None)
                return recording_of(payloads, folder / EVENTS, BlobStore(folder / "blobs"))
    raise InputError(f"{run} has no recorded judgement of task {row.task.id}, repeat {row.repeat}")
