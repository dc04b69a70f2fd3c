"""Read the results that the pinned runner wrote to the side channel. They are hostile input. Pure.

The code under test shares a process with the runner and can write to the same descriptor. Lines without the run's nonce
and the next number are foreign: they are counted and never used.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Mapping
from dataclasses import field
from typing import TypeGuard

from agentbench.acceptance.checks.pytest.item_ids import CollectedItem, IdMap
from agentbench.acceptance.checks.pytest.runner_bundle import Canaries
from agentbench.core.dataclass import dataclass

MAX_LINE = 4 * 1024 * 1024
MAX_DIGITS = 15
MAX_FOREIGN = 80
"""Characters shown of a line that the runner did not write."""
MAX_TEXT = 4096
"""Characters kept of a reason, a name or a path. The runner sends less; code that imitates it could send megabytes."""
MAX_AUDIT_EVENTS = 1000
"""More than the runner sends. Code that imitates the runner could send a million."""
PHASES = ("setup", "call", "teardown")
OWN_REPORT = "TestReport"
"""Reports of other types (subtests) may come any number of times; if one failed, the test failed."""

RERUN = "rerun"
"""Outcome that a plugin which repeats failing tests reports for a try that does not count; another try follows."""

UNEXPECTED_PASS = ("[XPASS(strict)]", "Unexpected success")
"""Messages of pytest for a test that failed because it passed: with a strict xfail mark, and with that of unittest."""

Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]


@dataclass(slots=True)
class TestRecord:
    """Everything reported about one test id."""

    phases: dict[str, list[str]] = field(default_factory=dict)
    """Outcomes of each phase, in order."""
    expected_failure: bool = False
    extra_failed: bool = False
    why: str = ""
    rerunning: bool = False
    """A rerun follows, so the current execution does not count."""

    def take(self, when: str, outcome: str) -> None:
        """Add one phase. If a rerun follows, only failures in later phases of this execution count."""
        if outcome == RERUN:
            self.rerunning = True
            self.phases.clear()
        elif self.rerunning and when != PHASES[0]:
            self.extra_failed |= outcome == "failed"
        else:
            self.rerunning = False
            self.phases.setdefault(when, []).append(outcome)

    @property
    def outcome(self) -> str:
        """passed, failed, skipped, xfailed or xpassed; `broken` if the phases contradict each other."""
        reported = [outcome for outcomes in self.phases.values() for outcome in outcomes]
        if "failed" in reported or self.extra_failed:
            return "failed"
        if any(len(outcomes) != 1 for outcomes in self.phases.values()) or not self.phases.keys() <= set(PHASES):
            return "broken"
        call = self.phases.get("call", [""])[0]
        if self.expected_failure:
            return "xpassed" if call == "passed" else "xfailed"
        if "skipped" in reported:
            return "skipped"
        return "passed" if reported == ["passed"] * len(PHASES) else "broken"

    @property
    def passed_unexpectedly(self) -> bool:
        """True if it failed only because it passed although it is marked as an expected failure."""
        reported = [outcome for outcomes in self.phases.values() for outcome in outcomes]
        once = self.phases.get("call") == ["failed"] and reported.count("failed") == 1 and not self.extra_failed
        return once and self.why.startswith(UNEXPECTED_PASS)


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """An action of workspace code that the interpreter reported. Paths are relative to the workspace."""

    kind: str
    target: str
    """The data file or the code that it is about, if its kind does not say so."""
    file: str
    line: int

    @property
    def what(self) -> str:
        return f"{self.kind} {self.target}".rstrip()

    @property
    def key(self) -> str:
        """The key to compare by; without the line, which moves with every edit."""
        return f"{self.what} {self.file}"


@dataclass(slots=True)
class Transcript:
    """The report of the pinned runner about one run. Its test ids are real ids."""

    id_map: IdMap = field(default_factory=IdMap)
    started: bool = False
    no_pytest: str = ""
    names: list[str] = field(default_factory=list)
    python: tuple[str, str, list[str]] | None = None
    """The base interpreter of the environment, its folder of programs and its package folders."""
    runner_modules: list[str] = field(default_factory=list)
    """Installed top-level modules that the runner itself loaded."""
    declared_plugins: list[tuple[str, str]] = field(default_factory=list)
    loaded_plugins: list[str] = field(default_factory=list)
    rootdir: str = ""
    inifile: str = ""
    confcutdir: str = ""
    items: list[CollectedItem] = field(default_factory=list)
    """All tests that the command selects, in the order in which they run."""
    announced: dict[str, str] = field(default_factory=dict)
    """Ids inside the sandbox, and the real ids. Reports with other ids do not count."""
    uncollected: dict[str, str] = field(default_factory=dict)
    canaries: dict[str, str] = field(default_factory=dict)
    tests: dict[str, TestRecord] = field(default_factory=dict)
    running_test: str = ""
    """The test that started last and has not finished; never a canary test."""
    changed: list[str] = field(default_factory=list)
    audit_events: list[AuditEvent] = field(default_factory=list)
    crash: str = ""
    """Why pytest or the session crashed; empty if it did not."""
    conftest_failed: bool = False
    """A conftest could not be imported, so no test ran."""
    status: int | None = None
    """Exit status that pytest would have had without canary tests."""
    ended: bool = False
    foreign: int = 0
    """Number of lines that the runner did not write."""
    first_foreign: str = ""
    """The start of the first of them."""
    _outcomes: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Outcomes by test id, once they were asked for: no record follows."""

    def add_foreign(self, line: str) -> None:
        """Count a line. Only the start of the first is kept: a flood of short lines must not fill the memory."""
        self.first_foreign = self.first_foreign or line[:MAX_FOREIGN]
        self.foreign += 1

    def behaviour(self) -> tuple[str, ...]:
        """Runner changes and audit events, in a form that can be compared between runs."""
        return (*self.changed, *(event.key for event in self.audit_events))

    def outcomes(self) -> dict[str, str]:
        """Outcome by test id, without canary tests. To be asked for when all records are read."""
        if not self._outcomes:
            outcomes = {test: record.outcome for test, record in self.tests.items() if test not in self.canaries}
            for item in self.items:
                outcomes.setdefault(item.id, "missing")
            self._outcomes = outcomes
        return dict(self._outcomes)

    def counted(self, neutral: Collection[str]) -> dict[str, str]:
        """Outcomes to count. `neutral`: tests that neither pass nor fail on the base repository.

        A neutral test may be a strict expected failure that documents the bug: passing after the fix is not a failure.
        """
        fixed = [test for test in neutral if test in self.tests and self.tests[test].passed_unexpectedly]
        return {**self.outcomes(), **dict.fromkeys(fixed, "xpassed")}


def read_transcript(data: bytes, nonce: str, id_map: IdMap | None = None) -> Transcript:
    """Read the bytes of the side channel."""
    transcript = Transcript(id_map or IdMap())
    expected = 0
    for line in io.BytesIO(data):
        raw = line.removesuffix(b"\n")
        if not raw:
            continue
        record = _record(raw, nonce, expected)
        if record is None or transcript.ended:
            transcript.add_foreign(raw[:MAX_FOREIGN].decode("utf-8", "backslashreplace"))
            continue
        expected += 1
        _take(transcript, record)
    return transcript


def _record(raw: bytes, nonce: str, expected: int) -> list[Value] | None:
    prefix = f"{nonce} {expected} ".encode()
    if not raw.startswith(prefix) or len(raw) > MAX_LINE:
        return None
    try:
        value = json.loads(raw[len(prefix) :].decode("ascii"), parse_int=_small_number)
        if b"\\ud" in raw.lower():
            value = _encodable(value)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) and value and isinstance(value[0], str) else None


def _small_number(digits: str) -> int:
    """Read a number. The runner sends no large ones, and a log cannot store them.

    Raises:
        ValueError: it is too large.
    """
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _encodable(value: Value) -> Value:
    """Escape names that are not UTF-8: they come as lone surrogates, which a log cannot store."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {str(_encodable(key)): _encodable(part) for key, part in value.items()}
    return [_encodable(part) for part in value] if isinstance(value, list) else value


def _take(transcript: Transcript, record: list[Value]) -> None:
    match record:
        case ["report", *_]:  # first, because nearly all records are reports
            _take_report(transcript, record)
        case ["start", *_]:
            transcript.started = True
        case ["no_pytest", str(why)]:
            transcript.no_pytest = why
        case ["changed", list(names)] if _strings(names):
            transcript.changed += [name[:MAX_TEXT] for name in names]
        case ["seen", str(kind), str(target), str(file), int(line)]:
            if len(transcript.audit_events) < MAX_AUDIT_EVENTS:
                transcript.audit_events.append(AuditEvent(kind[:MAX_TEXT], target[:MAX_TEXT], file[:MAX_TEXT], line))
        case ["crash" | "internal" | "conftest", str(why)]:
            transcript.crash = transcript.crash or why[:MAX_TEXT]
            transcript.conftest_failed |= record[0] == "conftest"
        case ["finish", int(_), int(own)]:
            transcript.status = own
        case ["end", _]:
            transcript.ended = True
        case ["names" | "loaded" | "python" | "plugins" | "plugin" | "config", *_]:
            _take_surroundings(transcript, record)
        case _:
            _take_test(transcript, record)


def _take_surroundings(transcript: Transcript, record: list[Value]) -> None:
    match record:
        case ["names", list(names)] if _strings(names):
            transcript.names = names
        case ["loaded", list(names)] if _strings(names):
            transcript.runner_modules = names
        case ["python", str(behind), str(programs), list(folders)] if _strings(folders):
            transcript.python = (behind, programs, folders)
        case ["plugins", list(pairs)]:
            transcript.declared_plugins = [
                (pair[0], pair[1]) for pair in pairs if isinstance(pair, list) and len(pair) == 2 and _strings(pair)
            ]
        case ["plugin", str(name), str(_)]:
            transcript.loaded_plugins.append(name)
        case ["config", str(rootdir), str(inifile), str(confcutdir)]:
            transcript.rootdir, transcript.inifile, transcript.confcutdir = rootdir, inifile, confcutdir
        case _:
            transcript.add_foreign(str(record))


def _take_test(transcript: Transcript, record: list[Value]) -> None:
    match record:
        case ["item", str(opaque), str(given), dict(indices)]:
            rows = {name: row for name, row in indices.items() if isinstance(row, int)}
            item = CollectedItem(transcript.id_map.real_id(opaque, given), opaque, given, rows)
            transcript.items.append(item)
            transcript.announced.setdefault(opaque, item.id)
        case ["canary", str(test), str(name)]:
            transcript.canaries[test] = name
            transcript.announced[test] = test
        case ["uncollected", str(test), str(why)]:
            transcript.uncollected[test] = why[:MAX_TEXT]
        case _:
            transcript.add_foreign(str(record))


def _take_report(transcript: Transcript, record: list[Value]) -> None:
    match record:
        case [_, str(opaque), *_] if opaque not in transcript.announced:
            pass
        case [_, str(opaque), str(when), str(outcome), str(kind), bool(expected), str(why)]:
            test = transcript.announced[opaque]
            report = transcript.tests.setdefault(test, TestRecord())
            report.expected_failure |= expected
            if kind == OWN_REPORT:
                report.take(when, outcome)
                if when in {PHASES[0], PHASES[-1]}:
                    transcript.running_test = test if when == PHASES[0] and test not in transcript.canaries else ""
            elif outcome == "failed":
                report.extra_failed = True
            if outcome != "passed" and not report.why:
                report.why = why[:MAX_TEXT]
        case _:
            transcript.add_foreign(str(record))


def _strings(values: list[Value]) -> TypeGuard[list[str]]:
    return all(isinstance(value, str) for value in values)


def forged_canary(transcript: Transcript, canaries: Canaries) -> str:
    """Return how a canary test that must fail was misreported; empty if none was.

    Canary tests that never ran prove nothing: then the end of the run is missing too, and that decides.
    """
    by_name = _by_name(transcript)
    for name in sorted(canaries.failing):
        record = by_name.get(name)
        if record is None or not record.phases:
            continue
        if record.outcome != "failed" and "call" in record.phases:
            return f"canary test reported as {record.outcome}"
    return ""


def failing_canaries_failed(transcript: Transcript, canaries: Canaries) -> bool:
    """Return whether every canary test that must fail ran and failed."""
    by_name = _by_name(transcript)
    return all(name in by_name and by_name[name].outcome == "failed" for name in canaries.failing)


def passing_canary_passed(transcript: Transcript, canaries: Canaries) -> bool:
    by_name = _by_name(transcript)
    return all(name in by_name and by_name[name].outcome == "passed" for name in canaries.passing)


def _by_name(transcript: Transcript) -> Mapping[str, TestRecord]:
    return {name: transcript.tests[test] for test, name in transcript.canaries.items() if test in transcript.tests}
