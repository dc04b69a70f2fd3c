"""What a card shows of the trace beside the record: findings with their lines, protected paths, why each test failed."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentbench.core.errors import RecordError
from agentbench.core.reasons import Outcome
from agentbench.reports.escape import columns, plain
from agentbench.trace.events import (
    AcceptanceCheck,
    BuildFinished,
    Excerpt,
    IntegrityFinding,
    MonitorAlert,
    StaticFinished,
    TestsFinished,
)
from agentbench.trace.log import read_events

SHOWN = frozenset(
    {
        *("integrity_finding", "monitor_alert", "acceptance_check"),
        *("build_finished", "static_finished", "tests_finished"),
    }
)
PROTECTED = {
    "protected_restored": "restored",
    "protected_dropped": "dropped",
    "hidden_overwritten": "replaced",
}
"""Rules of notes that only list a path: not accusations, so they stand apart."""
GRAVITY = ("terminate", "gate", "error", "penalty", "note")
MOST = 20
"""Findings, and protected paths of each kind, on a card; the page and the log have all."""
EXCERPT_LINES = 3
WHY_LINES = 6
"""Lines shown of why a test failed."""
WIDTH = 200


@dataclass(frozen=True, slots=True)
class _Found:
    seq: int
    severity: str
    rule: str
    place: str
    detail: str
    excerpt: str = ""


@dataclass(frozen=True, slots=True)
class Proof:
    """Parts of a log that a reader of a verdict asks for first."""

    findings: Sequence[_Found] = ()
    protected: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Paths by what became of them for grading."""
    diagnostics: Mapping[str, str] = field(default_factory=dict)
    """By check: its failing tests, each with what failed it."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """By step that did not pass: what it printed."""
    steps: Sequence[tuple[str, str, str]] = ()
    """Build and static commands that did not pass: name, outcome, why."""

    def lines(self) -> list[str]:
        """The blocks of a card; none for what there is nothing to say about."""
        lines = ["", "findings", *self._findings()] if self.findings else []
        if self.protected:
            lines += ["", "protected paths, as the contract has them for grading", *self._protected()]
        if self.steps:
            lines += ["", "build and static commands that did not pass", *self._steps()]
        return lines

    def output(self, step: str) -> list[str]:
        """The end of what a step printed: where no test says why it failed, all there is to see."""
        lines = [plain(line, WIDTH) for line in self.outputs.get(step, "").splitlines() if line.strip()]
        return lines if len(lines) <= WHY_LINES else [f"… {len(lines) - WHY_LINES} more lines", *lines[-WHY_LINES:]]

    def _steps(self) -> Iterator[str]:
        for name, outcome, why in self.steps:
            yield f"  {plain(name)} {outcome}" + (f": {plain(why)}" if why else "")
            yield from (f"      | {line}" for line in self.output(name))

    def _findings(self) -> Iterator[str]:
        shown = self.findings[:MOST]
        rows = [
            (one.severity, plain(one.rule), plain(one.place, WIDTH), f"event {one.seq}", plain(one.detail))
            for one in shown
        ]
        for one, row in zip(shown, columns(rows, "  "), strict=True):
            yield row
            excerpt = [line for line in one.excerpt.splitlines() if line.strip()]
            yield from (f"      | {plain(line, WIDTH)}" for line in excerpt[:EXCERPT_LINES])
        if len(self.findings) > MOST:
            yield f"  and {len(self.findings) - MOST} more (ab show --html has all)"

    def _protected(self) -> Iterator[str]:
        for what, paths in self.protected.items():
            yield from (f"  {what:<9} {plain(path, WIDTH)}" for path in paths[:MOST])
            if len(paths) > MOST:
                yield f"  {what:<9} and {len(paths) - MOST} more"

    def why(self, check_id: str, test: str) -> list[str]:
        """What the diagnostics of a check say about one of its failing tests, as lines without layout."""
        whole = "\n" + self.diagnostics.get(check_id, "")
        _, is_there, rest = whole.partition(f"\n{test}: ")
        if not is_there:
            return []
        first, *more = rest.split("\n")
        # Further lines of the same test are indented; the next test begins a line.
        told = [first]
        for line in more:
            if not line.startswith(" "):
                break
            told.append(line)
        if told[0].strip() in {"failed", "broken"} and len(told) > 1:
            told = told[1:]  # that it failed is why it is listed
        lines = [plain(line, WIDTH) for line in told if line.strip()]
        return lines if len(lines) <= WHY_LINES else [*lines[:WHY_LINES], f"… {len(lines) - WHY_LINES} more lines"]


def read_proof(log: Path | None) -> Proof:
    """From the log of an attempt; empty where there is none that can be read."""
    findings: list[_Found] = []
    protected: dict[str, list[str]] = {}
    diagnostics: dict[str, str] = {}
    outputs: dict[str, str] = {}
    steps: list[tuple[str, str, str]] = []
    if log is None:
        return Proof()
    try:
        for event in read_events(log, types=SHOWN):
            match event.payload:
                case IntegrityFinding() as one if one.rule in PROTECTED and one.severity == "note":
                    protected.setdefault(PROTECTED[one.rule], []).append(one.path or one.detail)
                case IntegrityFinding() as one:
                    place = place_of(one)
                    findings.append(_Found(event.seq, one.severity, one.rule, place, one.detail, one.excerpt))
                case MonitorAlert() as one:
                    findings.append(_Found(event.seq, one.severity, one.rule, one.monitor, one.detail))
                case AcceptanceCheck() as one if one.outcome is not Outcome.PASS:
                    diagnostics[one.check_id] = _text(one.diagnostics)
                case (BuildFinished() | StaticFinished() | TestsFinished()) as one if one.outcome is not Outcome.PASS:
                    # Of a check that is run again the run that failed is the last one.
                    outputs[one.step.partition("#")[0] if one.type == "tests_finished" else one.step] = (
                        f"{_text(one.stdout)}\n{_text(one.stderr)}"
                    )
                    if not isinstance(one, TestsFinished):
                        steps.append((one.step, one.outcome.value, one.why))
                case _:
                    pass
    except RecordError:
        return Proof()
    findings.sort(key=lambda one: GRAVITY.index(one.severity))
    return Proof(findings, protected, diagnostics, outputs, steps)


def place_of(finding: IntegrityFinding) -> str:
    """Path and line, as far as they are known."""
    if finding.path is None:
        return ""
    return finding.path if finding.line is None else f"{finding.path}:{finding.line}"


def _text(excerpt: Excerpt) -> str:
    if excerpt.encoding == "utf-8":
        return excerpt.text
    try:
        return base64.b64decode(excerpt.text).decode("utf-8", "replace")
    except ValueError:
        return ""
