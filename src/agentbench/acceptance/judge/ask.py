"""Asking a model for its judgement, once or several times, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from statistics import median_low
from typing import Literal

from agentbench.acceptance.judge.answer import Answer, Unparseable, read_answer
from agentbench.acceptance.judge.evidence import Case, evidence
from agentbench.core.canonical import sha256_hex
from agentbench.core.errors import ModelFault
from agentbench.core.ids import now_iso
from agentbench.models.protocol import Model, system, user
from agentbench.trace.blobs import BlobStore, excerpt
from agentbench.trace.events import JudgeExchange, JudgeFact, JudgeResult

RUBRIC = "rubric_v1"
MAX_TOKENS = 4_000
PPM = 1_000_000
_SCORES = ("task_completion", "instruction_adherence", "efficiency")


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one asking gave: an answer, or why there is none."""

    answer: Answer | None
    problem: str = ""
    text: str = ""

    @property
    def verdict(self) -> Literal["PASS", "FAIL", "unparseable"]:
        return self.answer.verdict if self.answer is not None else "unparseable"


@cache
def rubric() -> tuple[str, str]:
    """The fixed instructions and their name with digest."""
    text = files(__package__).joinpath(f"{RUBRIC}.txt").read_text(encoding="utf-8")
    return text, f"{RUBRIC}@sha256:{sha256_hex(text.encode())}"


def judge(model: Model, case: Case, *, times: int = 1) -> tuple[Judgement, ...]:
    """Ask `times` times the same. Nothing a model does ends the attempt: what cannot be read is unparseable."""
    messages = [system(rubric()[0]), user(evidence(case))]
    found: list[Judgement] = []
    for _ in range(max(1, times)):
        try:
            text = model.complete(messages, max_tokens=MAX_TOKENS).text
        except ModelFault as fault:
            found.append(Judgement(None, f"no answer: {fault.message}"))
            continue
        try:
            found.append(Judgement(read_answer(text), text=text))
        except Unparseable as error:
            found.append(Judgement(None, str(error), text))
    return tuple(found)


def conclude(
    judgements: Sequence[Judgement],
    model: str,
    expected_outcome: Literal["completion", "refusal"],
    exchanges: Sequence[JudgeExchange] = (),
    blobs: BlobStore | None = None,
) -> JudgeResult:
    """One result of all judgements: PASS needs more than half of those that can be read; scores are their lower medians."""
    answers = [one.answer for one in judgements if one.answer is not None]
    verdicts: list[str] = [one.verdict for one in judgements]
    passed = 2 * sum(one.verdict == "PASS" for one in answers) > len(answers)
    verdict: Literal["PASS", "FAIL", "unparseable"] = "unparseable" if not answers else "PASS" if passed else "FAIL"
    speaker = next((one for one in answers if one.verdict == verdict), None)
    if speaker is None:
        said = "; ".join(one.problem for one in judgements if one.problem)
        raw = next((one.text for one in judgements if one.text), "")
        said += f"\nIt said: {raw[:2000]}" if raw else ""
    else:
        said = speaker.reasoning
    modes = Counter(one.failure_mode for one in answers if one.verdict == "FAIL")
    return JudgeResult(
        verdict=verdict,
        scores={name: median_low([getattr(one, name) for one in answers]) for name in _SCORES} if answers else {},
        failure_mode=modes.most_common(1)[0][0] if verdict == "FAIL" and modes else None,
        model=model,
        reasoning=excerpt(said.encode("utf-8", "replace"), store=blobs),
        facts=[
            JudgeFact(claim=one.claim, verdict=one.verdict, evidence=one.evidence)
            for one in (speaker.facts if speaker else ())
        ],
        scored_at=now_iso(),
        rubric=rubric()[1],
        expected_outcome=expected_outcome,
        verdicts=verdicts,
        agreement_ppm=sum(one == verdict for one in verdicts) * PPM // len(verdicts) if len(verdicts) > 1 else None,
        exchanges=list(exchanges),
    )
