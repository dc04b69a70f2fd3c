"""The time limit of a candidate's build follows the build of the base repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.acceptance.build import (
    BaseBuild,
    ReferenceBuild,
    base_build_key,
    build_limit,
    reference_build_key,
)
from agentbench.acceptance.cache import load_or_make
from agentbench.acceptance.grade import grade
from agentbench.acceptance.grading_context import GradingContext, Unlogged
from agentbench.core.reasons import Outcome
from agentbench.trace.events import BuildStarted
from tests.acceptance.toy import FIXED, UNIT, TaskFactory, patch_of

pytestmark = pytest.mark.component


def context_with_build(tasks: TaskFactory, folder: Path, build: str) -> GradingContext:
    return tasks.context(folder, oracle={"build": build, "checks": [UNIT]})


@pytest.mark.parametrize(
    "base_sec, limit_sec",
    [(0.2, 300), (60.0, 600), (400.0, 1800), (None, 1800)],
    ids=["fast", "slow", "slowest", "fails"],
)
def test_build_limit_follows_the_base_build(
    tasks: TaskFactory, tmp_path: Path, base_sec: float | None, limit_sec: float
) -> None:
    context = context_with_build(tasks, tmp_path, f"true {base_sec}")
    load_or_make(context.cache, base_build_key(context), BaseBuild, lambda: BaseBuild(duration_sec=base_sec))
    assert build_limit(context) == limit_sec


@pytest.mark.parametrize("base_sec, reference_sec, limit_sec", [(0.2, 0.3, 60), (0.2, 20.0, 200), (None, 1.0, 60)])
def test_build_of_the_reference_lowers_the_limit(
    tasks: TaskFactory, tmp_path: Path, base_sec: float | None, reference_sec: float, limit_sec: float
) -> None:
    context = context_with_build(tasks, tmp_path, f"true {base_sec} {reference_sec}")
    load_or_make(context.cache, base_build_key(context), BaseBuild, lambda: BaseBuild(duration_sec=base_sec))
    built = ReferenceBuild(duration_sec=reference_sec)
    load_or_make(context.cache, reference_build_key(context), ReferenceBuild, lambda: built)
    assert build_limit(context) == limit_sec


def test_decoys_measure_the_build_of_the_reference(tasks: TaskFactory, tmp_path: Path) -> None:
    build = "true measured"
    reference = patch_of(context_with_build(tasks, tmp_path / "bare", build), {"src/toy/core.py": FIXED}).decode()
    context = tasks.context(
        tmp_path / "task",
        oracle={"build": build, "checks": [UNIT]},
        files={"reference.patch": reference},
        reference="reference.patch",
    )
    assert grade(patch_of(context, {"src/toy/core.py": FIXED}), context).accepted
    assert build_limit(context) == 60


def test_build_of_a_candidate_starts_with_that_limit(tasks: TaskFactory, tmp_path: Path) -> None:
    context = context_with_build(tasks, tmp_path, "true")
    graded = grade(patch_of(context, {"src/toy/core.py": FIXED}), context)
    assert [step.outcome for step in graded.steps] == [Outcome.PASS]
    assert isinstance(context.log, Unlogged)
    assert [event.ceiling_us for event in context.log.payloads if isinstance(event, BuildStarted)] == [300_000_000]
