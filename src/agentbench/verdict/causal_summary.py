"""A short summary of how an attempt ended.

The summary is an interpretation: it orders events of the log and draws no conclusions. Each line refers to its events.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from agentbench.core.dataclass import dataclass
from agentbench.core.reasons import Outcome
from agentbench.trace.events import (
    AcceptanceCheck,
    Briefing,
    EventLike,
    Intervention,
    PatchApplied,
    PatchExtracted,
    Payload,
    Termination,
    TestsFinished,
    ToolCallFinished,
    WorkspaceMutated,
)

LABEL = "interpretation"
MOST = 8
"""Longest summary, in lines."""
LARGE_FILES = 5
LARGE_BYTES = 4_000
_SHOWN = 160


@dataclass(frozen=True, slots=True)
class Cause:
    """One line of the summary and its events."""

    what: str
    evidence: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Edit:
    seq: int
    files: int
    size: int
    tested: tuple[int, Outcome] | None
    """The last test run before the edit."""


@dataclass(slots=True)
class _History:
    working: bool = False
    is_program: bool = False
    """Whether the harness ran the agent's work as one call. Test runs inside it are not seen."""
    cycles: list[tuple[int, Outcome]] = field(default_factory=list)
    edits: list[_Edit] = field(default_factory=list)
    outputs: list[tuple[int, str]] = field(default_factory=list)
    interventions: list[tuple[int, Intervention]] = field(default_factory=list)
    failed: tuple[int, AcceptanceCheck] | None = None
    ending: tuple[int, Termination] | None = None

    def add(self, seq: int, payload: Payload) -> None:
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
                self._add_agent_event(seq, payload)

    def _add_agent_event(self, seq: int, payload: Payload) -> None:
        match payload:
            case TestsFinished():
                self.cycles.append((seq, payload.outcome))
            case PatchApplied() | WorkspaceMutated():
                files = [file for file in payload.files if not file.generated]
                if files:
                    diff = payload.patch if isinstance(payload, PatchApplied) else payload.diff
                    self.edits.append(
                        _Edit(seq, len(files), diff.total_bytes, self.cycles[-1] if self.cycles else None)
                    )
            case ToolCallFinished():
                self.is_program = self.is_program or payload.by_harness
                self.outputs.append((seq, f"{payload.stdout.text}\n{payload.stderr.text}"))
            case Intervention():
                self.interventions.append((seq, payload))
            case _:
                pass


def causes(events: Iterable[EventLike]) -> tuple[Cause, ...]:
    """Summarise a log in at most `MOST` lines, in the order of events."""
    history = _History()
    for event in events:
        history.add(event.seq, event.payload)
    lines = [*_testing(history), *_editing(history), *_stopping(history), *_failing(history)]
    return tuple(sorted(lines, key=lambda line: line.evidence[0])[:MOST])


def _testing(history: _History) -> Iterable[Cause]:
    failing = [seq for seq, outcome in history.cycles if outcome is not Outcome.PASS]
    passing = [seq for seq, outcome in history.cycles if outcome is Outcome.PASS]
    if failing:
        yield Cause("first failing test run of the agent", (failing[0],))
    if passing:
        after = [seq for seq in failing if seq > passing[-1]]
        later = f"; {len(after)} later test runs failed" if after else ""
        yield Cause(f"last passing test run of the agent{later}", (passing[-1], *after[:1]))
    if history.edits and not history.cycles and not history.is_program:
        yield Cause("the agent changed files and never ran tests", (history.edits[0].seq,))


def _editing(history: _History) -> Iterable[Cause]:
    if not history.edits:
        return
    largest = max(history.edits, key=lambda edit: (edit.size, edit.files))
    if largest.files >= LARGE_FILES or largest.size >= LARGE_BYTES:
        before = "test runs are not seen" if history.is_program else "no test run before it"
        evidence: tuple[int, ...] = (largest.seq,)
        if largest.tested is not None:
            before = f"last test run before it: {largest.tested[1]}"
            evidence = (largest.seq, largest.tested[0])
        yield Cause(f"largest edit: {largest.files} files, {largest.size} bytes of diff; {before}", evidence)
    last_test = history.cycles[-1][0] if history.cycles else 0
    untested = [edit.seq for edit in history.edits if edit.seq > last_test]
    if untested and history.cycles:
        yield Cause(f"{len(untested)} edits after the agent's last test run", (untested[0], untested[-1]))


def _stopping(history: _History) -> Iterable[Cause]:
    if history.interventions:
        seq, first = history.interventions[0]
        many = f" ({len(history.interventions)} interventions in total)" if len(history.interventions) > 1 else ""
        yield Cause(f"first intervention of the harness: {first.action}{many}", (seq, first.alert))
    if history.ending is not None:
        seq, ending = history.ending
        yield Cause(f"agent phase ended: {ending.code}", (seq, *ending.evidence[:3]))


def _failing(history: _History) -> Iterable[Cause]:
    if history.failed is None:
        return
    seq, check = history.failed
    test = check.failing_tests[0] if check.failing_tests else ""
    detail = f"; first failing test {test[:_SHOWN]}" if test else ""
    yield Cause(f"first mandatory check that did not pass: {check.check_id} ({check.outcome}){detail}", (seq,))
    name = test.rpartition("::")[2].partition("[")[0]
    output = next((at for at, text in history.outputs if name and name in text), None)
    if output is not None:
        yield Cause(f"{name[:_SHOWN]} appears in the output of an earlier call", (output, seq))
