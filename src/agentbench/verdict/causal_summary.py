"""A bounded account of how an attempt came to its end (E-15).

It is an interpretation: it orders what the log shows and concludes nothing. Every line points to the events it is drawn from;
they remain the record.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from agentbench.core.reasons import Outcome
from agentbench.trace.events import (
    AcceptanceCheck,
    Briefing,
    Intervention,
    PatchApplied,
    PatchExtracted,
    Payload,
    Termination,
    TestsFinished,
    ToolCallFinished,
    WorkspaceMutated,
)
from agentbench.verdict.facts import EventLike

LABEL = "interpretation"
MOST = 8
"""Lines of an account."""
LARGE_FILES = 5
LARGE_BYTES = 4_000
_SHOWN = 160


@dataclass(frozen=True, slots=True)
class Cause:
    """One line, and the events it is drawn from."""

    what: str
    evidence: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Edit:
    seq: int
    files: int
    size: int
    tested: tuple[int, Outcome] | None
    """The last test cycle before it."""


@dataclass(slots=True)
class _Story:
    working: bool = False
    cycles: list[tuple[int, Outcome]] = field(default_factory=list)
    edits: list[_Edit] = field(default_factory=list)
    outputs: list[tuple[int, str]] = field(default_factory=list)
    interventions: list[tuple[int, Intervention]] = field(default_factory=list)
    failed: tuple[int, AcceptanceCheck] | None = None
    ending: tuple[int, Termination] | None = None

    def see(self, seq: int, payload: Payload) -> None:
        match payload:
            case Briefing():
                self.working = True
            case PatchExtracted():
                self.working = False
            case Termination():
                self.ending = self.ending or (seq, payload)
            case AcceptanceCheck() if payload.mandatory and payload.outcome is not Outcome.PASS:
                self.failed = self.failed or (seq, payload)
            case _ if self.working:
                self._at_work(seq, payload)

    def _at_work(self, seq: int, payload: Payload) -> None:
        match payload:
            case TestsFinished():
                self.cycles.append((seq, payload.outcome))
            case PatchApplied() | WorkspaceMutated():
                own = [one for one in payload.files if not one.generated]
                if own:
                    shown = payload.patch if isinstance(payload, PatchApplied) else payload.diff
                    self.edits.append(_Edit(seq, len(own), shown.total_bytes, self.cycles[-1] if self.cycles else None))
            case ToolCallFinished():
                self.outputs.append((seq, f"{payload.stdout.text}\n{payload.stderr.text}"))
            case Intervention():
                self.interventions.append((seq, payload))
            case _:
                pass


def causes(events: Iterable[EventLike]) -> tuple[Cause, ...]:
    """What the log shows of how it came to be, in the order in which it happened; at most `MOST` lines."""
    story = _Story()
    for event in events:
        story.see(event.seq, event.payload)
    lines = [*_testing(story), *_editing(story), *_stopping(story), *_failing(story)]
    return tuple(sorted(lines, key=lambda one: one.evidence[0])[:MOST])


def _testing(story: _Story) -> Iterable[Cause]:
    failing = [seq for seq, outcome in story.cycles if outcome is not Outcome.PASS]
    passing = [seq for seq, outcome in story.cycles if outcome is Outcome.PASS]
    if failing:
        yield Cause("the agent's own tests failed for the first time here", (failing[0],))
    if passing:
        after = [seq for seq in failing if seq > passing[-1]]
        and_then = f"; {len(after)} cycles failed after it" if after else ""
        yield Cause(f"the agent's own tests passed for the last time here{and_then}", (passing[-1], *after[:1]))
    if story.edits and not story.cycles:
        yield Cause("the agent changed files and never ran the tests", (story.edits[0].seq,))


def _editing(story: _Story) -> Iterable[Cause]:
    if not story.edits:
        return
    largest = max(story.edits, key=lambda one: (one.size, one.files))
    if largest.files >= LARGE_FILES or largest.size >= LARGE_BYTES:
        before = "no test run before it"
        evidence: tuple[int, ...] = (largest.seq,)
        if largest.tested is not None:
            before = f"the last test run before it: {largest.tested[1]}"
            evidence = (largest.seq, largest.tested[0])
        yield Cause(f"the largest edit: {largest.files} files, {largest.size} bytes of diff; {before}", evidence)
    last_test = story.cycles[-1][0] if story.cycles else 0
    untested = [one.seq for one in story.edits if one.seq > last_test]
    if untested and story.cycles:
        yield Cause(f"{len(untested)} edits came after the agent's last test run", (untested[0], untested[-1]))


def _stopping(story: _Story) -> Iterable[Cause]:
    if story.interventions:
        seq, first = story.interventions[0]
        many = f" ({len(story.interventions)} interventions in all)" if len(story.interventions) > 1 else ""
        yield Cause(f"the harness stepped in for the first time: {first.action}{many}", (seq, first.alert))
    if story.ending is not None:
        seq, ending = story.ending
        yield Cause(f"the agent's phase ended: {ending.code}", (seq, *ending.evidence[:3]))


def _failing(story: _Story) -> Iterable[Cause]:
    if story.failed is None:
        return
    seq, check = story.failed
    test = check.failing_tests[0] if check.failing_tests else ""
    told = f"; first failing test {test[:_SHOWN]}" if test else ""
    yield Cause(f"the first mandatory check that is not met: {check.check_id} ({check.outcome}){told}", (seq,))
    name = test.rpartition("::")[2].partition("[")[0]
    seen = next((at for at, text in story.outputs if name and name in text), None)
    if seen is not None:
        yield Cause(f"the agent had met {name[:_SHOWN]} before: its name is in the output of this call", (seen, seq))
