"""Read the side channel as hostile input: only complete, numbered lines with the nonce count."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.acceptance.checks.pytest.decide import decide_run
from agentbench.acceptance.checks.pytest.item_ids import CollectedItem, IdMap
from agentbench.acceptance.checks.pytest.records import MAX_AUDIT_EVENTS, MAX_TEXT, read_transcript
from agentbench.acceptance.checks.pytest.run import PytestRun
from agentbench.acceptance.checks.pytest.runner_bundle import Canaries, draw_canaries
from agentbench.acceptance.checks.pytest.time_limit import TimeLimit
from agentbench.acceptance.checks.required_tests import Requirement, requirement_from_base, tally
from agentbench.core.command import Completed, Stream
from agentbench.core.reasons import Outcome

pytestmark = pytest.mark.component

NONCE = "0123456789abcdef"
CANARIES = Canaries("test_c.py", frozenset({"c1", "c2"}), frozenset({"c3"}), "")
Record = list[object]


def report(
    test: str, outcome: str = "passed", when: str = "call", kind: str = "TestReport", *, x: bool = False
) -> Record:
    return ["report", test, when, outcome, kind, x, "" if outcome == "passed" else "why"]


def item(test: str, given: str | None = None, **rows: object) -> Record:
    return ["item", test, test if given is None else given, rows]


def passing(test: str) -> list[Record]:
    return [report(test, when=when) for when in ("setup", "call", "teardown")]


def failing(test: str) -> list[Record]:
    return [report(test, when="setup"), report(test, "failed"), report(test, when="teardown")]


def records_of(*tests: list[Record], canaries: bool = True) -> list[Record]:
    records: list[Record] = [["start", "3.11"], ["config", "/w", "", "/w"]]
    records += [["canary", f"::test_c.py::{name}", name] for name in ("c1", "c2", "c3")]
    records += [item(test) for test in dict.fromkeys(str(record[1]) for test in tests for record in test)]
    for test in tests:
        records += test
    if canaries:
        records += failing("::test_c.py::c1") + failing("::test_c.py::c2") + passing("::test_c.py::c3")
    return [*records, ["finish", 1, 0], ["end", 1]]


def lines(records: list[Record]) -> bytes:
    return b"".join(f"{NONCE} {number} {json.dumps(record)}\n".encode() for number, record in enumerate(records))


def run(side: bytes, exit_code: int | None = 77, *, timed_out: bool = False, oom: bool = False) -> PytestRun:
    completed = Completed(exit_code, Stream(), Stream(), 1.5, timed_out=timed_out, oom=oom, side=side)
    return PytestRun(completed, read_transcript(side, NONCE), CANARIES, 77, TimeLimit(60))


def decided(side: bytes, exit_code: int | None = 77, **ending: bool) -> tuple[Outcome, str, list[str]]:
    requirement = Requirement(("t::new",), ("t::old",))
    outcome = decide_run(run(side, exit_code, **ending), requirement, known=(), passing_canary=True)
    return outcome.outcome, outcome.why, [finding.rule for finding in outcome.findings]


GOOD = records_of(passing("t::new"), passing("t::old"))


@pytest.mark.req("G-01")
def test_pass_needs_every_required_test() -> None:
    assert decided(lines(GOOD)) == (Outcome.PASS, "2 required tests passed", [])
    assert decided(lines(records_of(passing("t::new"))))[:2] == (Outcome.FAIL, "1 of 2 required tests failed")


@pytest.mark.req("G-01", "G-14")
@pytest.mark.parametrize(
    "records",
    [
        failing("t::new"),
        [report("t::new", "skipped", "setup"), report("t::new", when="teardown")],
        [report("t::new", when="setup"), report("t::new", "skipped", x=True), report("t::new", when="teardown")],
        [report("t::new", when="setup"), report("t::new", x=True), report("t::new", when="teardown")],
        [*passing("t::new"), *passing("t::new")],
        [*passing("t::new"), report("t::new")],
        passing("t::new")[:2],
        passing("t::new")[1:],
        [report("t::new")],
        [*passing("t::new"), report("t::new", "failed", "teardown")],
        [*passing("t::new"), report("t::new", "failed", kind="SubtestReport")],
        [report("t::new", when="setup"), report("t::new", when="odd"), report("t::new", when="teardown")],
        [report("t::new", when="setup"), report("t::new", "rerun"), report("t::new", when="teardown")],
        [],
    ],
    ids=[
        "failed", "skipped", "xfailed", "xpassed", "twice", "two calls", "no teardown", "no setup", "call alone",
        "failed teardown", "failed subtest", "odd phase", "odd outcome", "missing",
    ],
)  # fmt: skip
def test_anything_but_three_passed_phases_is_not_a_pass(records: list[Record]) -> None:
    assert decided(lines(records_of(records, passing("t::old"))))[0] is Outcome.FAIL


def test_only_the_last_try_of_a_repeated_test_counts() -> None:
    first = [report("t::new", when="setup"), report("t::new", "rerun")]
    cleared = [*first, report("t::new", when="teardown")]
    for attempt in (first, cleared, [*first, *cleared]):
        assert decided(lines(records_of([*attempt, *passing("t::new")], passing("t::old"))))[0] is Outcome.PASS
        assert decided(lines(records_of([*attempt, *failing("t::new")], passing("t::old"))))[0] is Outcome.FAIL
    broken = [*first, report("t::new", "failed", "teardown"), *passing("t::new")]
    assert decided(lines(records_of(broken, passing("t::old"))))[0] is Outcome.FAIL


def test_passing_subtests_do_not_matter() -> None:
    subtests = [report("t::new", kind="SubtestReport")] * 3
    assert decided(lines(records_of([*subtests, *passing("t::new")], passing("t::old"))))[0] is Outcome.PASS


@pytest.mark.parametrize("end", [-1, -2])
def test_run_without_end_record_fails(end: int) -> None:
    assert decided(lines(GOOD[:end]))[0] is Outcome.FAIL


@pytest.mark.parametrize("exit_code", [0, 1, 127, None])
def test_results_and_exit_status_must_agree(exit_code: int | None) -> None:
    assert decided(lines(GOOD), exit_code)[0] is Outcome.FAIL


def test_passing_canary_test_is_a_forgery() -> None:
    records = records_of(
        passing("t::new"), passing("t::old"), passing("::test_c.py::c1"), passing("::test_c.py::c2"), canaries=False
    )
    outcome, _, rules = decided(lines(records))
    assert (outcome, rules) == (Outcome.FAIL, ["canary"])


def test_missing_canary_tests_mean_the_run_stopped_early() -> None:
    outcome, why, rules = decided(lines(records_of(passing("t::new"), passing("t::old"), canaries=False)))
    assert (outcome, rules) == (Outcome.FAIL, [])
    assert "stopped early" in why


@pytest.mark.parametrize(
    "foreign",
    [
        b'["report", "t::new", "call", "passed", "TestReport", false, ""]\n',
        b"wrong 3 []\n",
        NONCE.encode() + b" 3 not json\n",
        NONCE.encode() + b' 99 ["end", 0]\n',
        b"\xff\xfe\n",
        b"x" * 2_000_000 + b"\n",
    ],
)
def test_foreign_lines_are_ignored_and_reported(foreign: bytes) -> None:
    outcome, _, rules = decided(lines(GOOD)[:200] + b"\n" + foreign + lines(GOOD))
    assert outcome is Outcome.FAIL
    assert "forged_results" in rules


def test_flood_of_foreign_lines_is_counted_and_not_kept() -> None:
    transcript = read_transcript(b"first\n" + b"ab\n" * 100_000, NONCE)
    assert (transcript.foreign, transcript.first_foreign) == (100_001, "first")


def test_flood_of_audit_events_is_limited() -> None:
    seen: list[Record] = [["seen", "open test", "", f"f{number}.py", number] for number in range(2 * MAX_AUDIT_EVENTS)]
    assert len(read_transcript(lines(seen), NONCE).audit_events) == MAX_AUDIT_EVENTS


def test_texts_of_forged_records_are_bounded() -> None:
    text = "x" * 1_000_000
    forged: list[Record] = [
        ["seen", text, text, text, 1],
        ["changed", [text]],
        ["uncollected", "t.py", text],
        ["crash", text],
        item("t::new"),
        ["report", "t::new", "call", "failed", "TestReport", False, text],
    ]
    transcript = read_transcript(lines(forged), NONCE)
    (event,) = transcript.audit_events
    kept = [event.kind, event.target, event.file, *transcript.changed, transcript.uncollected["t.py"], transcript.crash]
    assert {len(part) for part in (*kept, transcript.tests["t::new"].why)} == {MAX_TEXT}


@pytest.mark.parametrize("number", [10**15, -(10**15), 2**64, 10**4000])
def test_numbers_that_a_log_cannot_store_are_foreign(number: int) -> None:
    for record in (["seen", "open test", "", "a.py", number], ["finish", 0, number]):
        transcript = read_transcript(lines([record]), NONCE)
        assert (transcript.foreign, transcript.audit_events, transcript.status) == (1, [], None)


@pytest.mark.parametrize("escape", [rb"\ud800", rb"\uD800", rb"\udFFF"])
def test_lone_surrogates_are_escaped(escape: bytes) -> None:
    (event,) = read_transcript(
        NONCE.encode() + b' 0 ["seen","open test","","' + escape + b'.py",1]\n', NONCE
    ).audit_events
    assert event.file == escape.decode().lower() + ".py"


def test_event_of_a_forged_kind_fails_the_run() -> None:
    event: Record = ["seen", "{kind}", "{target}", "a.py", 1]
    assert decided(lines([event, *GOOD]))[::2] == (Outcome.FAIL, ["watched_run"])


def test_lines_after_the_end_are_foreign() -> None:
    assert decided(lines([*GOOD, report("t::old", "failed")]))[2] == ["forged_results"]


@pytest.mark.req("E-06")
def test_timeout_states_duration_and_limit() -> None:
    assert decided(lines(GOOD[:-2]), None, timed_out=True)[1] == "timed out after 1.5 s (limit 60 s)"


@pytest.mark.req("E-06")
@pytest.mark.parametrize("phases", [("setup",), ("setup", "call")])
def test_unfinished_run_names_the_running_test(phases: tuple[str, ...]) -> None:
    cut = [*records_of(passing("t::old"))[:-2], item("t::new"), *(report("t::new", when=when) for when in phases)]
    assert decided(lines(cut), None, timed_out=True)[1] == "timed out after 1.5 s (limit 60 s), in t::new"
    assert decided(lines(cut), 0)[1] == "the test run did not finish: exit status 0, in t::new"
    canary = [*records_of(passing("t::old"), canaries=False)[:-2], report("::test_c.py::c1", when="setup")]
    assert decided(lines(canary), None, timed_out=True)[1] == "timed out after 1.5 s (limit 60 s)"


def test_out_of_memory_is_named_as_the_cause() -> None:
    assert "memory" in decided(lines(GOOD[:-2]), 137, oom=True)[1]


@given(st.binary(max_size=300))
def test_no_bytes_crash_the_reader_or_pass(noise: bytes) -> None:
    assert decided(noise)[0] is Outcome.FAIL
    outcome, _, rules = decided(lines(GOOD) + noise)
    assert (outcome is Outcome.PASS) == (not noise.strip(b"\n") and not rules)


@given(st.text(), st.text())
def test_test_ids_stay_unchanged(test: str, why: str) -> None:
    transcript = read_transcript(lines([item(test), ["uncollected", "f", why]]), NONCE)
    assert [item.id for item in transcript.items] == [test.encode("utf-8", "backslashreplace").decode()]
    json.dumps(transcript.uncollected, ensure_ascii=False).encode()


@pytest.mark.req("G-01")
@pytest.mark.parametrize(
    "why, outcome",
    [("[XPASS(strict)] a bug", Outcome.PASS), ("Unexpected success", Outcome.PASS), ("t.py:1: assert 0", Outcome.FAIL)],
)
def test_strict_xfail_on_base_may_pass_after_the_fix(why: str, outcome: Outcome) -> None:
    """The mark stays, since the test file is restored: the fix for the documented bug must not fail because of it."""
    known: list[Record] = [
        report("t::known", when="setup"),
        [*report("t::known", "failed")[:-1], why],
        report("t::known", when="teardown"),
    ]
    side = lines(records_of(passing("t::new"), known))
    neutral = Requirement(("t::new",), neutral=("t::known",))
    assert decide_run(run(side), neutral, known=(), passing_canary=True).outcome is outcome
    required = Requirement(("t::new", "t::known"))
    assert decide_run(run(side), required, known=(), passing_canary=True).outcome is Outcome.FAIL


def test_requirement_from_base_outcomes() -> None:
    outcomes = {"a": "passed", "b": "failed", "c": "skipped", "d": "xfailed", "e": "missing", "f": "xpassed"}
    requirement = requirement_from_base(outcomes, ("new.py",))
    assert requirement == Requirement(("b", "e"), ("a",), ("c", "d", "f"), ("new.py",))
    good = {"a": "passed", "b": "passed", "c": "skipped", "e": "passed", "new.py::x": "passed"}
    assert tally(requirement, good).failing == ()
    assert tally(requirement, {**good, "c": "failed"}).failing == ("c",)
    assert tally(requirement, {**good, "new.py::y": "failed"}).failing == ("new.py",)
    assert tally(requirement, {**good, "new.py::x": "skipped"}).failing == ("new.py",)
    assert tally(requirement, good, ("new.py",)).failing == ("new.py",)
    assert tally(requirement, {**good, "other": "failed"}).unlisted_failures == 1


def test_canary_tests_are_random() -> None:
    first, second = draw_canaries(), draw_canaries()
    assert first.module != second.module
    assert not first.failing & second.failing
    assert len(first.failing) == 5


def test_results_of_opaque_ids_are_mapped_to_real_ids() -> None:
    side = lines([item("t::x[#0]", "t::x[2.5]", value=0), item("t::x[#1]", "t::x[9]"), *passing("t::x[#0]")])
    transcript = read_transcript(side, NONCE, IdMap({"t::x": ("t::x[2.5]", "t::x[3.5]")}, frozenset({"t::x[3.5]"})))
    assert transcript.outcomes() == {"t::x[2.5]": "passed", "t::x[3.5]": "missing"}
    assert transcript.items[0] == CollectedItem("t::x[2.5]", "t::x[#0]", "t::x[2.5]", {"value": 0})


def test_reports_of_tests_that_were_not_collected_do_not_count() -> None:
    side = lines([item("t::x[#0]", "t::x[2.5]"), *passing("t::x[2.5]"), *passing("t::y")])
    assert read_transcript(side, NONCE).outcomes() == {"t::x[2.5]": "missing"}


def test_two_tests_with_one_id_do_not_pass() -> None:
    twice = [item("t::x[#0]", "t::x[1]"), item("t::x[#1]", "t::x[1]")]
    side = lines([*twice, *passing("t::x[#0]"), *passing("t::x[#1]")])
    assert read_transcript(side, NONCE).outcomes() == {"t::x[1]": "broken"}


@pytest.mark.parametrize("rows", [{"x": "1"}, {"x": None}, {"x": [1]}])
def test_rows_that_are_not_numbers_are_ignored(rows: dict[str, object]) -> None:
    (collected,) = read_transcript(lines([["item", "t::x", "t::x", rows]]), NONCE).items
    assert collected.indices == {}
