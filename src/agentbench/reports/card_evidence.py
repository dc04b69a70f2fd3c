"""Parts of a trace that a card shows beside the record: requested stages, findings, protected paths, failures of tests and steps."""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import RecordError
from agentbench.core.reasons import Outcome
from agentbench.core.text import without_terminal_codes
from agentbench.policy.stages import PLAN
from agentbench.reports.escape import columns, output_line, plain
from agentbench.trace.events import (
    AcceptanceCheck,
    BuildFinished,
    Excerpt,
    IntegrityFinding,
    MonitorAlert,
    StageChanged,
    StaticFinished,
    TestsFinished,
    ToolCallFinished,
)
from agentbench.trace.log import read_events

EVENTS_READ = frozenset(
    {
        *("integrity_finding", "monitor_alert", "acceptance_check", "stage_changed"),
        *("build_finished", "static_finished", "tests_finished", "tool_call_finished"),
    }
)
PROTECTED = {
    "protected_restored": "restored",
    "protected_dropped": "dropped",
    "hidden_overwritten": "replaced",
}
"""Rules of notes that only list a path. They are not evidence of cheating, so they get their own section."""
SEVERITIES = ("terminate", "gate", "error", "penalty", "note")
"""Most severe first."""
MAX_SHOWN = 20
"""Findings, and protected paths of each kind, on a card; the HTML page and the log have all."""
EXCERPT_LINES = 3
FAILURE_LINES = 6
AGENT_LINES = 12
"""Lines shown of each stream of an agent's program."""
PLAN_LINES = 20
WIDTH = 200


@dataclass(frozen=True, slots=True)
class _Finding:
    seq: int
    severity: str
    rule: str
    place: str
    detail: str
    excerpt: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Findings, protected paths and failures from the log of one attempt."""

    findings: Sequence[_Finding] = ()
    protected: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Paths by what grading did with them."""
    diagnostics: Mapping[str, str] = field(default_factory=dict)
    """Text of each failed check that explains its failing tests."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """Output of each step that did not pass."""
    decoy_runs: Mapping[str, int] = field(default_factory=dict)
    """Number of runs of each check that mix real tests with decoys."""
    agent: tuple[str, str] = ("", "")
    """Ends of stdout and stderr of a program that acted as the agent."""
    steps: Sequence[tuple[str, str, str]] = ()
    """Build and static commands that did not pass: name, outcome, reason."""
    stages: Sequence[StageChanged] = ()
    """Stages that the agent asked for, with its reasons."""

    def lines(self) -> list[str]:
        """Render the sections that are not empty."""
        lines: list[str] = []
        for name, text in zip(("stdout", "stderr"), self.agent, strict=True):
            if shown := last_lines(text, AGENT_LINES):
                lines += ["", f"{name} of the agent's program", *(f"  | {line}" for line in shown)]
        lines += ["", "requested stages", *self._stages()] if self.stages else []
        lines += ["", "findings", *self._findings()] if self.findings else []
        if self.protected:
            lines += ["", "protected paths, set to the contract's version for grading", *self._protected()]
        if self.steps:
            lines += ["", "build and static commands that did not pass", *self._steps()]
        return lines

    def output(self, step: str) -> list[str]:
        """Return the last lines that a step printed."""
        return last_lines(self.outputs.get(step, ""), FAILURE_LINES)

    def _stages(self) -> Iterator[str]:
        for change in self.stages:
            first, *following = [plain(line, WIDTH) for line in change.reason.splitlines() if line.strip()] or [""]
            label = "plan: " if change.before == PLAN else ""
            yield f"  {change.before} → {change.after}  {label}{first}"
            yield from (f"      | {line}" for line in following[:PLAN_LINES])
            if len(following) > PLAN_LINES:
                yield f"      | … {len(following) - PLAN_LINES} more lines"

    def _steps(self) -> Iterator[str]:
        for name, outcome, why in self.steps:
            yield f"  {plain(name)} {outcome}" + (f": {plain(why)}" if why else "")
            yield from (f"      | {line}" for line in self.output(name))

    def _findings(self) -> Iterator[str]:
        shown = self.findings[:MAX_SHOWN]
        rows = [
            (
                finding.severity,
                plain(finding.rule),
                plain(finding.place, WIDTH),
                f"event {finding.seq}",
                plain(finding.detail),
            )
            for finding in shown
        ]
        for finding, row in zip(shown, columns(rows, "  "), strict=True):
            yield row
            excerpt = [line for line in finding.excerpt.splitlines() if line.strip()]
            yield from (f"      | {output_line(line, WIDTH)}" for line in excerpt[:EXCERPT_LINES])
        if len(self.findings) > MAX_SHOWN:
            yield f"  and {len(self.findings) - MAX_SHOWN} more (ab show --html has all)"

    def _protected(self) -> Iterator[str]:
        for action, paths in self.protected.items():
            yield from (f"  {action:<9} {plain(path, WIDTH)}" for path in paths[:MAX_SHOWN])
            if len(paths) > MAX_SHOWN:
                yield f"  {action:<9} and {len(paths) - MAX_SHOWN} more"

    def failure(self, check_id: str, test: str) -> list[str]:
        """Return what the diagnostics of a check say about one failing test."""
        text = "\n" + self.diagnostics.get(check_id, "")
        _, separator, rest = text.partition(f"\n{test}: ")
        if not separator:
            return []
        first, *following = rest.split("\n")
        # Further lines about the same test are indented.
        block = [first]
        for line in following:
            if not line.startswith(" "):
                break
            block.append(line)
        block = [*block[:1], *textwrap.dedent("\n".join(block[1:])).splitlines()]
        if block[0].strip() in {"failed", "broken"} and len(block) > 1:
            block = block[1:]
        lines = [output_line(without_terminal_codes(line), WIDTH) for line in block if line.strip()]
        omitted = len(lines) - FAILURE_LINES
        return lines if omitted <= 0 else [*lines[:FAILURE_LINES], f"… {omitted} more lines"]


def last_lines(text: str, count: int) -> list[str]:
    """Return the last lines that are not empty, and how many are left out."""
    lines = [output_line(line, WIDTH) for line in without_terminal_codes(text).splitlines() if line.strip()]
    omitted = len(lines) - count
    return lines if omitted <= 0 else [f"… {omitted} more lines", *lines[-count:]]


def read_evidence(log: Path | None) -> Evidence:
    """Read the log of an attempt; empty if it is missing or unreadable."""
    findings: list[_Finding] = []
    protected: dict[str, list[str]] = {}
    diagnostics: dict[str, str] = {}
    outputs: dict[str, str] = {}
    decoy_runs: dict[str, int] = {}
    agent = ("", "")
    steps: list[tuple[str, str, str]] = []
    stages: list[StageChanged] = []
    if log is None:
        return Evidence()
    try:
        for event in read_events(log, types=EVENTS_READ):
            match event.payload:
                case IntegrityFinding() as finding if finding.rule in PROTECTED and finding.severity == "note":
                    protected.setdefault(PROTECTED[finding.rule], []).append(finding.path or finding.detail)
                case IntegrityFinding() as finding:
                    findings.append(
                        _Finding(
                            event.seq,
                            finding.severity,
                            finding.rule,
                            _place(finding),
                            finding.detail,
                            finding.excerpt,
                        )
                    )
                case ToolCallFinished() as call if call.by_harness:
                    agent = (agent[0] + _text(call.stdout), agent[1] + _text(call.stderr))
                case StageChanged() as change:
                    stages += [change] if change.reason else []
                case MonitorAlert() as alert:
                    findings.append(_Finding(event.seq, alert.severity, alert.rule, alert.monitor, alert.detail))
                case AcceptanceCheck() as check if check.outcome is not Outcome.PASS:
                    diagnostics[check.check_id] = _text(check.diagnostics)
                case (BuildFinished() | StaticFinished() | TestsFinished()) as step:
                    _add_step(step, outputs, decoy_runs, steps)
                case _:
                    pass
    except RecordError:
        return Evidence()
    findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    return Evidence(findings, protected, diagnostics, outputs, decoy_runs, agent, steps, stages)


def _add_step(
    step: BuildFinished | StaticFinished | TestsFinished,
    outputs: dict[str, str],
    decoy_runs: dict[str, int],
    steps: list[tuple[str, str, str]],
) -> None:
    """Count a run with decoys, and add the output of a step that did not pass."""
    is_test = isinstance(step, TestsFinished)
    check, _, decoy_run = step.step.partition("~")
    if is_test and decoy_run:
        decoy_runs[check] = decoy_runs.get(check, 0) + 1
    elif step.outcome is not Outcome.PASS:
        # `CHECK#2` is a rerun of CHECK; the last failed one is shown.
        outputs[step.step.partition("#")[0] if is_test else step.step] = f"{_text(step.stdout)}\n{_text(step.stderr)}"
        steps += [] if is_test else [(step.step, step.outcome.value, step.why)]


def _place(finding: IntegrityFinding) -> str:
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
