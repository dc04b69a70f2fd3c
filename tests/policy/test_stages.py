"""Recomputed stages agree with the log, and calls outside their stage are detected."""

from __future__ import annotations

import pytest

from agentbench.policy.stages import recheck_stages
from agentbench.trace.events import Briefing, Excerpt, Payload, StageChanged, ToolCallFinished, ToolCallStarted
from tests.policy.traces import TraceEvent

pytestmark = [pytest.mark.req("R-04b", "M-03b"), pytest.mark.synthetic]

STAGES = ("inspect", "plan", "write", "test")
EMPTY = Excerpt(text="", encoding="utf-8", sha256="", blob=None, total_bytes=0, truncated=False)


def changed(before: str | None, after: str, reason: str = "because") -> StageChanged:
    return StageChanged(before=before, after=after, cause="request_stage", reason=reason)


def called(
    tool: str, stage: str, *inside: Payload, error: str | None = None, files: tuple[str, ...] = ()
) -> list[Payload]:
    started = ToolCallStarted(call_id="c1", tool=tool, arguments={}, stage=stage)
    finished = ToolCallFinished(
        call_id="c1",
        tool=tool,
        ok=error is None,
        exit_code=1 if error == "nonzero_exit" else None,
        timed_out=False,
        duration_us=1,
        stdout=EMPTY,
        stderr=EMPTY,
        changed_files=list(files),
        error_type=error,
        error_message=error,
        killed_processes=0,
    )
    return [started, *inside, finished]


def requested(before: str, after: str, reason: str = "because") -> list[Payload]:
    return called("request_stage", before, changed(before, after, reason))


def problems(*payloads: Payload) -> list[str]:
    log = [Briefing(text="", sha256="", parts={}), changed(None, "inspect", ""), *payloads]
    return recheck_stages([TraceEvent(number, payload) for number, payload in enumerate(log, start=1)], STAGES)


def test_log_that_keeps_the_stages_has_no_problem() -> None:
    assert not problems(
        *called("read_file", "inspect"),
        *called("run", "inspect", error="stage_denied"),
        *called("request_stage", "inspect", error="stage_denied"),
        *requested("inspect", "plan"),
        *requested("plan", "write", "change a.py"),
        *called("apply_patch", "write", files=("a.py",)),
        *requested("write", "test"),
        *called("run", "test", error="nonzero_exit"),
        *called("read_file", "test"),
    )


@pytest.mark.parametrize(
    "payloads,problem",
    {
        "executed early": (called("run", "inspect"), "run was executed outside its stage"),
        "failed early": (called("run", "inspect", error="nonzero_exit"), "run was executed outside its stage"),
        "changed files": (
            called("apply_patch", "inspect", error="stage_denied", files=("a.py",)),
            "apply_patch was executed outside its stage",
        ),
        "other stage logged": (called("read_file", "write"), "in stage write, recomputed as inspect"),
        "skipped": (requested("inspect", "write"), "from inspect to write, expected plan"),
        "silent": (called("read_file", "inspect", changed("inspect", "plan")), "without a request"),
        "no plan": (
            [*requested("inspect", "plan"), *requested("plan", "write", "")],
            "the stage plan was left without a plan",
        ),
        "denied for nothing": (
            called("read_file", "inspect", error="stage_denied"),
            "although the stage inspect grants it",
        ),
    }.values(),
)
def test_broken_stage_is_reported(payloads: list[Payload], problem: str) -> None:
    (found,) = problems(*payloads)
    assert problem in found
