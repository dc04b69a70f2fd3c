"""Asks a model for its judgement, once or several times, and combines the answers into one result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from statistics import median_low
from typing import Literal

from agentbench.acceptance.judge.answer import Answer, Unparseable, read_answer
from agentbench.acceptance.judge.evidence import Case, evidence
from agentbench.core.canonical import sha256_hex
from agentbench.core.dataclass import dataclass
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
    """The outcome of one request: an answer, or the reason why there is none."""

    answer: Answer | None
    problem: str = ""
    text: str = ""

    @property
    def verdict(self) -> Literal["PASS", "FAIL", "unparseable"]:
        return self.answer.verdict if self.answer is not None else "unparseable"


@cache
def rubric() -> tuple[str, str]:
    """Return the fixed instructions, and their name with digest."""
    text = files(__package__).joinpath(f"{RUBRIC}.txt").read_text(encoding="utf-8")
    return text, f"{RUBRIC}@sha256:{sha256_hex(text.encode())}"


def judge(model: Model, case: Case, *, times: int = 1) -> tuple[Judgement, ...]:
    """Send the same request `times` times.

    A failing model never ends the attempt: an unreadable reply is unparseable.
    """
    messages = [system(rubric()[0]), user(evidence(case))]
    judgements: list[Judgement] = []
    for _ in range(max(1, times)):
        try:
            text = model.complete(messages, max_tokens=MAX_TOKENS).text
        except ModelFault as fault:
            judgements.append(Judgement(None, f"no answer: {fault.message}"))
            continue
        try:
            judgements.append(Judgement(read_answer(text), text=text))
        except Unparseable as error:
            judgements.append(Judgement(None, str(error), text))
    return tuple(judgements)


def conclude(
    judgements: Sequence[Judgement],
    model: str,
    expected_outcome: Literal["completion", "refusal"],
    exchanges: Sequence[JudgeExchange] = (),
    blobs: BlobStore | None = None,
) -> JudgeResult:
    """Combine all judgements into one result.

    PASS needs more than half of the readable answers. Scores are their lower medians.
    """
    answers = [judgement.answer for judgement in judgements if judgement.answer is not None]
    verdicts: list[str] = [judgement.verdict for judgement in judgements]
    passed = 2 * sum(answer.verdict == "PASS" for answer in answers) > len(answers)
    verdict: Literal["PASS", "FAIL", "unparseable"] = "unparseable" if not answers else "PASS" if passed else "FAIL"
    quoted = next((answer for answer in answers if answer.verdict == verdict), None)
    if quoted is None:
        reasoning = "; ".join(judgement.problem for judgement in judgements if judgement.problem)
        raw = next((judgement.text for judgement in judgements if judgement.text), "")
        reasoning += f"\nThe reply was: {raw[:2000]}" if raw else ""
    else:
        reasoning = quoted.reasoning
    modes = Counter(answer.failure_mode for answer in answers if answer.verdict == "FAIL")
    return JudgeResult(
        verdict=verdict,
        scores={name: median_low([getattr(answer, name) for answer in answers]) for name in _SCORES} if answers else {},
        failure_mode=modes.most_common(1)[0][0] if verdict == "FAIL" and modes else None,
        model=model,
        reasoning=excerpt(reasoning.encode("utf-8", "replace"), store=blobs),
        facts=[
            JudgeFact(claim=fact.claim, verdict=fact.verdict, evidence=fact.evidence)
            for fact in (quoted.facts if quoted else ())
        ],
        scored_at=now_iso(),
        rubric=rubric()[1],
        expected_outcome=expected_outcome,
        verdicts=verdicts,
        agreement_ppm=verdicts.count(verdict) * PPM // len(verdicts) if len(verdicts) > 1 else None,
        exchanges=list(exchanges),
    )
