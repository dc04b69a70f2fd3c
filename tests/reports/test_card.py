from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agentbench.cli.show import command
from agentbench.core.errors import InputError
from agentbench.core.reasons import Assurance, Gate, Outcome, Reason, TerminationCode
from agentbench.record.headline import headline
from agentbench.record.schema import CheckRecord
from agentbench.reports.card_evidence import MAX_SHOWN, Evidence, last_lines
from agentbench.trace import events
from agentbench.trace.events import (
    AcceptanceCheck,
    Excerpt,
    GateResult,
    IntegrityFinding,
    MonitorAlert,
    Payload,
)
from agentbench.trace.log import EventLog
from tests.reports.runs import HOSTILE, record, run_dir

pytestmark = pytest.mark.synthetic


def show(*args: str | Path) -> Result:
    return CliRunner().invoke(command, list(map(str, args)))


def card(*args: str | Path) -> str:
    result = show(*args)
    assert result.exception is None, result.exception
    return result.output


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return run_dir(tmp_path / "run", [record("good"), record("bad", "fail"), record("bad", "fail", 2)])


def test_run_card_starts_with_the_rate_and_lists_attempts(run: Path) -> None:
    lines = card(run).splitlines()
    assert lines[0].startswith("1 of 3 passed: contract rate 33.3%")
    assert any(line.split()[:2] == ["good", "1"] and line.endswith("PASS") for line in lines)
    assert sum("FAIL TESTS_FAILED: 2 of 14 required tests" in line for line in lines) == 2


def test_run_card_names_tasks_to_review(tmp_path: Path) -> None:
    flagged = [record("bad", "fail", 1).model_copy(update={"needs_review": True}), record("good")]
    assert "\nto review    1 attempt: bad\n" in card(run_dir(tmp_path / "run", flagged))
    assert "to review" not in card(run_dir(tmp_path / "other", [record("good")]))


@pytest.mark.req("G-03a")
def test_attempt_card_starts_with_the_verdict(run: Path) -> None:
    text = card(run, "--task", "bad", "--repeat", "1")
    assert text.startswith("FAIL TESTS_FAILED: 2 of 14 required tests\n")
    for part in (
        "passes checks  fail  unit: because",
        "unit fail (mandatory, unit, per_test, exit 1, 1.2 s, limit 300 s): 2 of 14 required tests failed",
        "$ python -m pytest -q",
        "failing tests/test_core.py::test_even",
        "acceptance.unit  passes checks  events 41  check unit",
        "agent_stopped: it ended",
        "1 of 3 fail-to-pass and 11 of 11 other required tests passed",
        "2 files, +10 -3",
        str(run / "tasks/bad"),
        "attributed to agent",
    ):
        assert part in text
    assert card(run, "--task", "bad").count("FAIL TESTS_FAILED") == 2


def test_progress_names_pass_to_pass_only_if_every_check_has_fail_to_pass_tests(tmp_path: Path) -> None:
    one = record("good")
    known = tuple(check.model_copy(update={"f2p_total": 3}) for check in one.checks)
    unknown = (*known, known[0].model_copy(update={"id": "probe", "f2p_total": 0}))
    text = card(run_dir(tmp_path / "known", [one.model_copy(update={"checks": known})]))
    assert "3 of 3 fail-to-pass and 11 of 11 pass-to-pass tests passed" in text
    text = card(run_dir(tmp_path / "unknown", [one.model_copy(update={"checks": unknown})]))
    assert "3 of 3 fail-to-pass and 11 of 11 other required tests passed" in text


def test_run_with_one_attempt_shows_that_attempt(tmp_path: Path) -> None:
    assert card(run_dir(tmp_path / "run", [record()])).startswith("PASS\n")
    assert card(run_dir(tmp_path / "empty", [])).startswith("EMPTY")


def test_json_has_summary_and_records(run: Path) -> None:
    data = json.loads(card(run, "--task", "good", "--json"))
    assert data["summary"]["rates"]["contract"]["count"] == 1
    assert [attempt["task_id"] for attempt in data["attempts"]] == ["good"]
    assert len(json.loads(card(run, "--json"))["attempts"]) == 3


def test_unknown_task_lists_available_tasks(run: Path) -> None:
    error = show(run, "--task", "ugly").exception
    assert isinstance(error, InputError)
    assert "no finished task 'ugly'; available tasks: bad, good" in error.message


def test_unknown_repeat_lists_available_repeats(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record("a", repeat=1), record("a", repeat=2), record("b", repeat=3)])
    known = {("a", "3"): "repeats: 1, 2", ("b", "1"): "repeats: 3", ("bb", "1"): "tasks: a, b"}
    for (task, repeat), available in known.items():
        assert str(show(run, "--task", task, "--repeat", repeat).exception).endswith(f"available {available}")
    assert "available repeats: 1, 2, 3" in str(show(run, "--repeat", "9").exception)


def test_hostile_record_gives_a_plain_text_card(tmp_path: Path) -> None:
    check = CheckRecord(
        id="unit", layer="unit", mandatory=True, outcome=Outcome.FAIL, assurance=Assurance.PER_TEST, command=HOSTILE, exit_code=1,
        started_at="x", duration_sec=1, ceiling_sec=2, stdout_sha256="", stderr_sha256="", failing_tests=(HOSTILE,) * 30, why=HOSTILE,
    )  # fmt: skip
    gates = {gate: GateResult(outcome=Outcome.FAIL, passed=False, why=HOSTILE) for gate in Gate}
    bad = record(
        "t", "fail", variant=HOSTILE, agent=HOSTILE, suite=HOSTILE, checks=(check,), gates=gates,
        termination={"code": "agent_stopped", "rationale": HOSTILE}, scorers=[{"name": HOSTILE, "type": "command", "required": True, "verdict": "FAIL", "detail": HOSTILE}],
        tags=[{"id": "acceptance.unit", "gate": "G3", "evidence": [1], "attributes": {"check": HOSTILE}}],
    )  # fmt: skip
    text = card(run_dir(tmp_path / "run", [bad, record("ok")]), "--task", "t")
    assert all(line.isprintable() for line in text.splitlines())
    assert "\u202e" not in text
    assert "and 10 more" in text
    assert not any(line.startswith("# PASS") for line in text.splitlines())


@pytest.mark.req("G-17a")
def test_card_gives_reasons_for_a_review(tmp_path: Path) -> None:
    folder = run_dir(tmp_path / "run", [record("t", needs_review=True)])
    assert "review       needs review" in card(folder)
    place = folder / "tasks/t"
    place.mkdir(parents=True)
    log = EventLog.create(place / "events.jsonl")
    log.append(IntegrityFinding(rule="new_dependency", severity="penalty", detail="left-pad"))
    log.release()
    assert "review       rules violated: new_dependency" in card(folder)
    stray = record("t", needs_review=True, artifact_paths={"task_dir": "../run/tasks/t"})
    assert "review       needs review" in card(run_dir(tmp_path / "stray", [stray]))


def logged(folder: Path, *events: Payload) -> Path:
    """Write a log for task `t` of the run."""
    (folder / "tasks/t").mkdir(parents=True)
    log = EventLog.create(folder / "tasks/t/events.jsonl")
    for event in events:
        log.append(event)
    log.release()
    return folder


@pytest.mark.req("G-03a", "G-09")
def test_findings_are_shown_most_severe_first(tmp_path: Path) -> None:
    folder = logged(
        run_dir(tmp_path / "run", [record("t", "policy")]),
        IntegrityFinding(rule="new_module", severity="note", path="a.py", detail="is new"),
        IntegrityFinding(
            rule="frame_walking", severity="gate", path="src/core.py", line=11, detail="looks around", excerpt="f = f.f_back"
        ),
        MonitorAlert(monitor="policy", severity="gate", rule="os.system_path", detail="rm -rf /etc"),
        *(IntegrityFinding(rule="many", severity="note", path=f"{n}.py", detail="x") for n in range(MAX_SHOWN)),
    )  # fmt: skip
    lines = [" ".join(line.split()) for line in card(folder).splitlines()]
    begin = lines.index("findings")
    assert lines[begin + 1 : begin + 5] == [
        "gate frame_walking src/core.py:11 event 2 looks around",
        "| f = f.f_back",
        "gate os.system_path policy event 3 rm -rf /etc",
        "note new_module a.py event 1 is new",
    ]
    assert "and 3 more (ab show --html has all)" in lines


@pytest.mark.req("C-06", "G-09")
def test_protected_paths_are_listed_separately(tmp_path: Path) -> None:
    folder = logged(
        run_dir(tmp_path / "run", [record("t")]),
        IntegrityFinding(rule="protected_restored", severity="note", path="tests/test_core.py", detail="is as in R"),
        IntegrityFinding(rule="protected_dropped", severity="note", path="conftest.py", detail="left out"),
    )
    text = card(folder)
    assert "\n  restored  tests/test_core.py\n  dropped   conftest.py\n" in text
    assert "findings" not in text


def test_output_of_the_agents_program_is_shown_without_terminal_codes(tmp_path: Path) -> None:
    ran = events.ToolCallFinished(
        call_id="h1", tool="agent_command", ok=False, exit_code=3, duration_us=1,
        stdout=Excerpt(text="".join(f"\x1b[32mstep {n}\x1b[0m\n" for n in range(30))), stderr=Excerpt(text="no key\n"),
    )  # fmt: skip
    text = card(logged(run_dir(tmp_path / "run", [record("t", "fail")]), ran))
    assert "\nstdout of the agent's program\n  | … 18 more lines\n  | step 18\n" in text
    assert "\nstderr of the agent's program\n  | no key\n" in text


@pytest.mark.req("G-15")
def test_failing_test_is_shown_with_its_assertion(tmp_path: Path) -> None:
    name = "tests/test_core.py::test_even"
    diagnostics = f"x::other: failed\n    x.py:1: assert 0\n{name}: failed\n    tests/test_core.py:9: assert 3 == 2.5\n    \x1b[31m\x07+ where 3\nlast: failed"
    decided = AcceptanceCheck(
        check_id="unit", layer="unit", mandatory=True, outcome=Outcome.FAIL, why="", command="pytest", started_at="x",
        failing_tests=[name], diagnostics=Excerpt(text=diagnostics),
    )  # fmt: skip
    text = card(logged(run_dir(tmp_path / "run", [record("t", "fail")]), decided))
    assert f"    failing {name}\n      | tests/test_core.py:9: assert 3 == 2.5\n      | \\x07+ where 3\n" in text
    assert "assert 0" not in text


@pytest.mark.req("E-06", "G-03a")
def test_failed_command_is_shown_with_the_end_of_its_output(tmp_path: Path) -> None:
    def finished(
        kind: type[events.BuildFinished | events.StaticFinished | events.TestsFinished],
        step: str,
        outcome: Outcome,
        out: str = "",
        err: str = "",
    ) -> Payload:
        streams = {"stdout": Excerpt(text=out), "stderr": Excerpt(text=err)}
        return kind(step=step, outcome=outcome, exit_code=2, timed_out=False, duration_us=1, why="exit 2", **streams)

    failed = record("t", "fail")
    checks = [
        failed.checks[0].model_copy(update={"id": name, "failing_tests": ()}) for name in ("script", "again", "unit")
    ]
    checks[2] = checks[2].model_copy(update={"failing_tests": ("a::b",)})
    many = "".join(f"line {n}\n" for n in range(20))
    folder = logged(
        run_dir(tmp_path / "run", [failed.model_copy(update={"checks": tuple(checks)})]),
        finished(events.BuildFinished, "build", Outcome.FAIL, err="make: nope\n"),
        finished(events.StaticFinished, "static#1", Outcome.PASS, "tidy"),
        finished(events.TestsFinished, "script", Outcome.FAIL, many, "expected \x1b[31m\x07hello\n\n"),
        finished(events.TestsFinished, "again", Outcome.PASS, "well"),
        finished(events.TestsFinished, "again#2", Outcome.FAIL, "not well"),
        finished(events.TestsFinished, "unit", Outcome.FAIL, "a session of pytest"),
    )
    text = card(folder)
    assert "build and static commands that did not pass\n  build fail: exit 2\n      | make: nope\n" in text
    assert "      | … 15 more lines\n      | line 15\n" in text
    assert "      | line 19\n      | expected \\x07hello\n" in text
    assert "      | not well\n" in text
    for absent in ("tidy", "| well", "a session of pytest"):
        assert absent not in text


@pytest.mark.req("G-07")
@pytest.mark.parametrize(
    "changes,expected",
    [
        ({}, "FAIL TESTS_FAILED: 2 of 14 required tests"),
        (
            {
                "result": {"passed": False, "failure_reason": Reason.TIMEOUT},
                "termination": {"code": TerminationCode.WALL_CAP, "rationale": "900 s used up"},
            },
            "FAIL TIMEOUT: 900 s used up; 2 of 14 required tests",
        ),
        (
            {"progress": {}, "result": {"passed": False, "failure_reason": Reason.TESTS_FAILED}},
            "FAIL TESTS_FAILED: 1 of 1 mandatory checks (unit: 2 of 14 required tests failed)",
        ),
    ],
    ids=["tests", "wall cap", "no test ids"],
)
def test_headline_of_a_failure(changes: dict[str, Any], expected: str) -> None:
    assert headline(record("t", "fail", **changes)) == expected


@pytest.mark.parametrize(
    "kind,expected",
    [
        ("pass", "PASS"),
        ("policy", "FAIL POLICY_VIOLATION: unit: because"),
        ("task", "INVALID SETUP_FAILED: it ended"),
        ("safety", "INVALID SAFETY_STOP: it ended"),
        ("harness", "INVALID SANDBOX_ERROR: it ended"),
    ],
)
def test_headline_of_every_status(kind: str, expected: str) -> None:
    assert headline(record("t", kind)) == expected


def test_output_of_a_program_keeps_its_indentation() -> None:
    text = "Traceback (most recent call last):\n  File 'agent.py', line 3\n\tmain()\nKeyError: 1  \n"
    assert last_lines(text, 10) == [
        "Traceback (most recent call last):",
        "  File 'agent.py', line 3",
        "    main()",
        "KeyError: 1",
    ]


def test_failure_of_a_test_keeps_the_indentation_of_its_lines() -> None:
    shown = Evidence(diagnostics={"unit": "t: failed\n    def test():\n        assert 1\nother: failed"})
    assert shown.failure("unit", "t") == ["def test():", "    assert 1"]
