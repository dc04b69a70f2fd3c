"""What the pinned runner said on the side channel, read as hostile input. Pure.

The code under test shares a process with the runner and can write to the same descriptor. Lines that do not carry the
run's nonce and the next number are foreign; they are counted and never believed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeGuard

from agentbench.acceptance.checks.pytest.runner_bundle import Canaries

MAX_LINE = 4 * 1024 * 1024
PHASES = ("setup", "call", "teardown")
OWN_REPORT = "TestReport"
"""Other report types (subtests) may come any number of times, and none of them may have failed."""

AGAIN = "rerun"
"""What a plugin that repeats failing tests reports of an attempt that does not count; another one follows it."""

UNEXPECTED = ("[XPASS(strict)]", "Unexpected success")
"""How pytest says why a test failed that was expected to: by a strict mark, and by that of unittest."""

Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]


@dataclass(slots=True)
class TestRecord:
    """Everything that was reported about one test id."""

    phases: dict[str, list[str]] = field(default_factory=dict)
    """Outcomes of each phase in the order they came."""
    expected_failure: bool = False
    extra_failed: bool = False
    why: str = ""
    again: bool = False
    """The attempt that is under way does not count."""

    def take(self, when: str, outcome: str) -> None:
        """One phase. An attempt that is repeated leaves nothing but its failures to clear up."""
        if outcome == AGAIN:
            self.again = True
            self.phases.clear()
        elif self.again and when != PHASES[0]:
            self.extra_failed |= outcome == "failed"
        else:
            self.again = False
            self.phases.setdefault(when, []).append(outcome)

    @property
    def outcome(self) -> str:
        """passed, failed, skipped, xfailed, xpassed; `broken` when the phases do not add up to any of them."""
        said = [outcome for outcomes in self.phases.values() for outcome in outcomes]
        if "failed" in said or self.extra_failed:
            return "failed"
        if any(len(outcomes) != 1 for outcomes in self.phases.values()) or not self.phases.keys() <= set(PHASES):
            return "broken"
        call = self.phases.get("call", [""])[0]
        if self.expected_failure:
            return "xpassed" if call == "passed" else "xfailed"
        if "skipped" in said:
            return "skipped"
        return "passed" if said == ["passed"] * len(PHASES) else "broken"

    @property
    def passed_unexpectedly(self) -> bool:
        """It failed for no other reason than that it passes, which it was marked not to do."""
        said = [outcome for outcomes in self.phases.values() for outcome in outcomes]
        once = self.phases.get("call") == ["failed"] and said.count("failed") == 1 and not self.extra_failed
        return once and self.why.startswith(UNEXPECTED)


@dataclass(frozen=True, slots=True)
class Sight:
    """Something that code of the workspace did and the interpreter reported. `file` is relative to the workspace."""

    what: str
    file: str
    line: int

    @property
    def key(self) -> str:
        """Without the line, which moves with every edit."""
        return f"{self.what} {self.file}"


@dataclass(slots=True)
class Transcript:
    """One run of the pinned runner, as far as it told."""

    started: bool = False
    no_pytest: str = ""
    names: list[str] = field(default_factory=list)
    python: tuple[str, str, list[str]] | None = None
    """The interpreter behind the environment, the folder of its programs, its package folders."""
    runner_modules: list[str] = field(default_factory=list)
    """Installed top-level modules that the runner itself has loaded."""
    test_code: dict[str, tuple[str, dict[str, str]]] = field(default_factory=dict)
    """Modules of the tests: file, and a digest of each function."""
    declared_plugins: list[tuple[str, str]] = field(default_factory=list)
    loaded_plugins: list[str] = field(default_factory=list)
    rootdir: str = ""
    inifile: str = ""
    confcutdir: str = ""
    items: list[str] = field(default_factory=list)
    uncollected: dict[str, str] = field(default_factory=dict)
    canaries: dict[str, str] = field(default_factory=dict)
    tests: dict[str, TestRecord] = field(default_factory=dict)
    under_way: str = ""
    """The test that was begun last and has not ended; no canary."""
    changed: list[str] = field(default_factory=list)
    seen: list[Sight] = field(default_factory=list)
    trouble: str = ""
    """What pytest or the session died of, if it did."""
    conftest: bool = False
    """A conftest could not be imported, so nothing was run."""
    status: int | None = None
    """Exit status that pytest would have had without canaries."""
    ended: bool = False
    foreign: list[str] = field(default_factory=list)
    """Beginnings of lines that the runner did not write."""

    def unusual(self) -> tuple[str, ...]:
        """Everything that the watch over the runner reported, in a form that can be compared between runs."""
        return (*self.changed, *(sight.key for sight in self.seen))

    def outcomes(self) -> dict[str, str]:
        """Outcome by test id, canaries apart."""
        found = {test: record.outcome for test, record in self.tests.items() if test not in self.canaries}
        for item in self.items:
            found.setdefault(item, "missing")
        return found

    def counted(self, neutral: Collection[str]) -> dict[str, str]:
        """Outcomes for what is required. `neutral`: tests that do not pass on R and need not.

        One of them may document the fault that is mended, and be marked as failing: that it passes now is no failure of the work.
        """
        mended = [test for test in neutral if test in self.tests and self.tests[test].passed_unexpectedly]
        return {**self.outcomes(), **dict.fromkeys(mended, "xpassed")}


def read_transcript(data: bytes, nonce: str) -> Transcript:
    """Read what came over the side channel."""
    transcript = Transcript()
    expected = 0
    for raw in data.split(b"\n"):
        if not raw:
            continue
        record = _record(raw, nonce, expected)
        if record is None or transcript.ended:
            transcript.foreign.append(raw[:80].decode("utf-8", "backslashreplace"))
            continue
        expected += 1
        _take(transcript, record)
    return transcript


def _record(raw: bytes, nonce: str, expected: int) -> list[Value] | None:
    prefix = f"{nonce} {expected} ".encode()
    if not raw.startswith(prefix) or len(raw) > MAX_LINE:
        return None
    try:
        value = json.loads(raw[len(prefix) :])
        if b"\\ud" in raw:
            value = _encodable(value)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) and value and isinstance(value[0], str) else None


def _encodable(value: Value) -> Value:
    """Names that are not UTF-8 come as lone surrogates, which no log could hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return [_encodable(one) for one in value] if isinstance(value, list) else value


def _take(transcript: Transcript, record: list[Value]) -> None:
    match record:
        case ["start", *_]:
            transcript.started = True
        case ["no_pytest", str(why)]:
            transcript.no_pytest = why
        case ["changed", list(names)] if _strings(names):
            transcript.changed += names
        case ["seen", str(what), str(file), int(line)]:
            transcript.seen.append(Sight(what, file, line))
        case ["crash" | "internal" | "conftest", str(why)]:
            transcript.trouble = transcript.trouble or why
            transcript.conftest |= record[0] == "conftest"
        case ["finish", int(_), int(own)]:
            transcript.status = own
        case ["end", _]:
            transcript.ended = True
        case ["tests", str(name), str(file), dict(functions)]:
            transcript.test_code[name] = (file, {key: str(value) for key, value in functions.items()})
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
            transcript.foreign.append(str(record)[:80])


def _take_test(transcript: Transcript, record: list[Value]) -> None:
    match record:
        case ["item", str(test)]:
            transcript.items.append(test)
        case ["canary", str(test), str(name)]:
            transcript.canaries[test] = name
        case ["uncollected", str(test), str(why)]:
            transcript.uncollected[test] = why
        case ["report", str(test), str(when), str(outcome), str(kind), bool(expected), str(why)]:
            found = transcript.tests.setdefault(test, TestRecord())
            found.expected_failure |= expected
            if kind == OWN_REPORT:
                found.take(when, outcome)
                if when in {PHASES[0], PHASES[-1]}:
                    transcript.under_way = test if when == PHASES[0] and test not in transcript.canaries else ""
            elif outcome == "failed":
                found.extra_failed = True
            if outcome != "passed" and not found.why:
                found.why = why
        case _:
            transcript.foreign.append(str(record)[:80])


def _strings(values: list[Value]) -> TypeGuard[list[str]]:
    return all(isinstance(value, str) for value in values)


def canaries_lied(transcript: Transcript, canaries: Canaries) -> str:
    """How the canaries show that reports are not what happened; empty when they do not.

    Canaries that were never reached say nothing: then the end is missing too, and that decides.
    """
    by_name = _by_name(transcript)
    for name in sorted(canaries.failing):
        record = by_name.get(name)
        if record is None or not record.phases:
            continue
        if record.outcome != "failed" and "call" in record.phases:
            return f"a test that must fail was reported as {record.outcome}"
    return ""


def canaries_held(transcript: Transcript, canaries: Canaries) -> bool:
    """Whether every canary that must fail was run and failed."""
    by_name = _by_name(transcript)
    return all(name in by_name and by_name[name].outcome == "failed" for name in canaries.failing)


def passing_canary_passed(transcript: Transcript, canaries: Canaries) -> bool:
    by_name = _by_name(transcript)
    return all(name in by_name and by_name[name].outcome == "passed" for name in canaries.passing)


def _by_name(transcript: Transcript) -> Mapping[str, TestRecord]:
    return {name: transcript.tests[test] for test, name in transcript.canaries.items() if test in transcript.tests}
