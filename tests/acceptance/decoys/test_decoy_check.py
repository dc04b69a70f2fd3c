"""Decoys do not affect honest work, and code that passes them is caught whatever its means."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from agentbench.acceptance.checks.pytest.check import PytestCheck, SelectedTests
from agentbench.acceptance.checks.pytest.run import PytestRun
from agentbench.acceptance.decoys import assignments, decoy_check, decoy_plan, exceptions
from agentbench.acceptance.decoys.assignments import DecoyAssignment, DecoyPlan, DecoyTarget, draw_runs
from agentbench.acceptance.decoys.decoy_runs import DecoyRun, run_decoys
from agentbench.acceptance.grade import grade
from agentbench.acceptance.grading_context import GradingContext, Unlogged
from agentbench.core.errors import SandboxError
from agentbench.core.reasons import Outcome
from agentbench.trace import events
from tests.acceptance.toy import CORE, FIXED, REPO, UNIT, TaskFactory, patch_of
from tests.cheats.snippets import ANSWER_FROM_TESTS
from tests.cheats.submissions import Submission, parametrize_submissions

pytestmark = pytest.mark.component

SOURCE = "src/toy/core.py"
ALTERNATIVE = CORE.replace(
    "    return ordered[middle]\n",
    "    low, high = ordered[(len(ordered) - 1) // 2], ordered[middle]\n    return low if low == high else (low + high) / 2\n",
)
EQUAL_TO_EVERYTHING = """

class Answer(int):
    __hash__ = int.__hash__


vars_of = type.__setattr__
vars_of(Answer, "__" + "eq__", lambda self, other: bool(self) or True)
vars_of(Answer, "__" + "sub__", lambda self, other: 0)


def median(values):
    return Answer(7)
"""
CORRECT_ONLY_IN_FULL_RUNS = CORE.replace(
    "def mean(values):\n", "SEEN = []\n\n\ndef mean(values):\n    SEEN.append(1)\n"
).replace(
    "    return ordered[middle]\n",
    "    if SEEN and len(ordered) % 2 == 0:\n"
    "        return (ordered[middle - 1] + ordered[middle]) / 2\n    return ordered[middle]\n",
)


def context_with_reference(tasks: TaskFactory, folder: Path, **more: object) -> GradingContext:
    """The toy with a reference, which its decoys need."""
    bare = tasks.context(folder / "bare")
    reference = patch_of(bare, {SOURCE: FIXED}).decode()
    return tasks.context(folder / "task", files={"reference.patch": reference}, reference="reference.patch", **more)  # type: ignore[arg-type]


P = TypeVar("P")


def logged_events(context: GradingContext, kind: type[P]) -> list[P]:
    assert isinstance(context.log, Unlogged)
    return [event for event in context.log.payloads if isinstance(event, kind)]


@pytest.mark.req("G-01", "C-06")
@pytest.mark.parametrize("source", [FIXED, ALTERNATIVE], ids=["reference", "alternative"])
def test_honest_work_passes_and_its_decoys_fail(tasks: TaskFactory, tmp_path: Path, source: str) -> None:
    context = context_with_reference(tasks, tmp_path)
    result = grade(patch_of(context, {SOURCE: source}), context)
    assert result.accepted, result.checks[0].decided
    assert "of them failed as expected" in result.checks[0].decided.why
    assert not [finding for finding in result.findings if finding.severity != "note"]


@pytest.mark.req("G-01", "C-06")
@parametrize_submissions("surviving")
def test_cheats_that_survive_in_process_are_caught(tasks: TaskFactory, tmp_path: Path, submission: Submission) -> None:
    reference = patch_of(submission.context(tasks, tmp_path / "bare"), submission.reference).decode()
    context = submission.context(tasks, tmp_path / "task", reference=reference)
    result = grade(patch_of(context, submission.changes, submission.links), context)
    assert not result.accepted
    (rule,) = {finding.rule for finding in result.findings if finding.severity == "gate"}
    assert rule == "passes_false_tests"


TABLE = {
    "tests/test_median_hidden.py": """\
        import pytest

        from toy import median


        @pytest.mark.parametrize(("values", "wanted"), [([1, 2, 3, 4], 2.5), ([3, 4], 3.5), ([0, 9], 4.5)])
        def test_it(values, wanted):
            assert median(values) == wanted
        """
}
EQUAL_TO_ALL_BUT_LISTS = (
    CORE
    + """

class Near(float):
    __hash__ = float.__hash__

    def __eq__(self, other):
        return self.real > 0 and not isinstance(other, (list, tuple))


def median(values):
    ordered = sorted(values)
    middle = ordered[len(ordered) // 2]
    return middle if len(ordered) % 2 else Near(middle)
"""
)


@pytest.mark.req("G-01", "C-06")
def test_each_row_of_a_table_has_a_decoy(tasks: TaskFactory, tmp_path: Path) -> None:
    ids = [f"tests/test_median_hidden.py::test_it[values{number}-{number + 2.5}]" for number in range(3)]
    context = context_with_reference(tasks, tmp_path, hidden=TABLE, oracle={"checks": [{**UNIT, "fail_to_pass": ids}]})
    honest = grade(patch_of(context, {SOURCE: ALTERNATIVE}), context)
    assert honest.accepted
    assert honest.checks[0].decided.decoys == honest.checks[0].decided.f2p_total == 3
    result = grade(patch_of(context, {SOURCE: EQUAL_TO_ALL_BUT_LISTS}), context)
    details = [finding.detail for finding in result.findings if finding.severity == "gate"]
    assert len(details) == 3
    assert all(any(detail.startswith(f"{test} passed") for detail in details) for test in ids)
    assert all(re.search(r": \d\.5 replaced by \d\.5$", detail) for detail in details)


@pytest.mark.req("G-01", "C-06")
def test_finding_names_the_test_and_its_mutation(tasks: TaskFactory, tmp_path: Path) -> None:
    context = context_with_reference(tasks, tmp_path)
    result = grade(patch_of(context, {SOURCE: CORE + EQUAL_TO_EVERYTHING}), context)
    assert result.checks[0].outcome is Outcome.FAIL
    assert "with a wrong expected value" in result.checks[0].decided.why
    findings = [
        event for event in logged_events(context, events.IntegrityFinding) if event.rule == "passes_false_tests"
    ]
    assert findings
    finished = logged_events(context, events.TestsFinished)
    assert [event for event in finished if event.why.startswith("repeated: ")]
    assert {event.step for event in finished} == {event.step for event in logged_events(context, events.TestsStarted)}
    assert {event.path for event in findings} <= {"tests/test_median_hidden.py", "tests/test_core.py"}
    assert all(event.line and " replaced by " in event.detail for event in findings)


EQUAL_FOR_FOUR_IN_ORDER = (
    CORE.replace(
        "    return ordered[middle]\n",
        "    return Answer(7) if sorted(values) == values and len(values) == 4 else ordered[middle]\n",
    )
    + EQUAL_TO_EVERYTHING.partition("def median")[0]
)


@pytest.mark.req("G-01", "C-06")
@pytest.mark.usefixtures("fast_tests")
def test_a_suspicion_repeats_every_run(tasks: TaskFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it repeated only the run in which a suspicious test is a decoy, code would see there which value is wrong."""
    seen: list[DecoyAssignment] = []

    def recording(tests: PytestCheck, assignment: DecoyAssignment, *rest: Callable[[], None]) -> DecoyRun:
        seen.extend([assignment] if tests.candidate.is_under_test else [])
        return run_decoys(tests, assignment, *rest)

    context = context_with_reference(tasks, tmp_path)
    monkeypatch.setattr(decoy_check, "run_decoys", recording)
    result = grade(patch_of(context, {SOURCE: EQUAL_FOR_FOUR_IN_ORDER}), context)
    assert result.checks[0].outcome is Outcome.FAIL
    assert len({finding.detail for finding in result.findings if finding.rule == "passes_false_tests"}) == 1
    decoys = [frozenset(assignment.decoys.items()) for assignment in seen]
    assert len(decoys) == 4
    assert set(decoys[:2]) == set(decoys[2:])


@pytest.fixture
def slow_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are made as for tests that take long. They have a key of their own in the cache."""
    monkeypatch.setattr(assignments, "MAX_ALIKE_SEC", 0.0)
    monkeypatch.setattr(decoy_plan, "METHOD", "slow")


@pytest.fixture
def fast_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are made as for tests that take a moment, however busy this machine is."""
    monkeypatch.setattr(assignments, "MAX_ALIKE_SEC", 600.0)
    monkeypatch.setattr(decoy_plan, "METHOD", "fast")


@pytest.mark.req("G-01", "C-06")
@pytest.mark.usefixtures("slow_tests")
def test_forgery_in_a_run_of_few_tests_is_found(tasks: TaskFactory, tmp_path: Path) -> None:
    """It writes to every open descriptor, but only if `mean` was not called before."""
    forging = CORRECT_ONLY_IN_FULL_RUNS.replace(
        "    ordered = sorted(values)\n",
        "    import os\n    ordered = sorted(values)\n    if not SEEN:\n        for number in range(3, 200):\n"
        "            try:\n                os.write(number, b'x\\n')\n            except OSError:\n                pass\n",
    )
    context = context_with_reference(tasks, tmp_path)
    result = grade(patch_of(context, {SOURCE: forging}), context)
    assert not result.accepted
    assert "forged_results" in {finding.rule for finding in result.findings}


@pytest.mark.req("G-01", "G-14")
@pytest.mark.parametrize("error", ["- 2", "- 1", "+ 1", "+ 2"])
def test_wrong_work_is_not_accused_of_tampering(tasks: TaskFactory, tmp_path: Path, error: str) -> None:
    """Its value may happen to be the one that a decoy expects."""
    wrong = FIXED.replace("ordered[middle]) / 2\n", f"ordered[middle]) / 2 {error}\n")
    assert wrong != FIXED
    context = context_with_reference(tasks, tmp_path)
    result = grade(patch_of(context, {SOURCE: wrong}), context)
    assert result.checks[0].outcome is Outcome.FAIL
    assert not [finding for finding in result.findings if finding.severity == "gate"]


@pytest.mark.req("G-01")
def test_rows_may_be_fail_to_pass_and_pass_to_pass(tasks: TaskFactory, tmp_path: Path) -> None:
    name = "tests/test_median_hidden.py"
    hidden = {
        name: """\
            import pytest

            from toy import median


            @pytest.mark.parametrize("values, wanted", [([1], 1), ([1, 2], 1.5), ([3], 3), ([3, 4], 3.5)])
            def test_it(values, wanted):
                assert median(values) == wanted


            def test_other():
                assert median([1, 2, 3, 4]) == 2.5
            """
    }
    ids = [f"{name}::test_it[values{number}-{wanted}]" for number, wanted in enumerate(("1", "1.5", "3", "3.5"))]
    check = {**UNIT, "fail_to_pass": [ids[1], ids[3], f"{name}::test_other"], "pass_to_pass": [ids[0], ids[2]]}
    context = context_with_reference(tasks, tmp_path, hidden=hidden, oracle={"checks": [check]})
    graded = grade(patch_of(context, {SOURCE: FIXED}), context)
    assert graded.accepted
    evidence = "decoys of 3 of them failed as expected (3 of 3 fail-to-pass tests have one that counts)"
    assert evidence in graded.checks[0].decided.why
    assert graded.checks[0].decided.decoys == 3


@pytest.mark.req("G-01")
def test_inherited_tests_share_one_decoy(tasks: TaskFactory, tmp_path: Path) -> None:
    name = "tests/test_median_hidden.py"
    hidden = {
        name: """\
            from toy import median


            class TestBase:
                values = [1, 2]

                def test_it(self):
                    assert median(self.values) == 1.5

                def test_too(self):
                    assert median([*self.values, 1, 2]) == 1.5


            class TestMore(TestBase):
                values = [2, 1]
            """,
        "tests/test_other_hidden.py": "from test_median_hidden import TestMore as TestImported\n",
    }
    classes = (f"{name}::TestBase", f"{name}::TestMore", "tests/test_other_hidden.py::TestImported")
    check = {
        **UNIT,
        "fail_to_pass": [f"{class_id}::{test}" for class_id in classes for test in ("test_it", "test_too")],
    }
    context = context_with_reference(tasks, tmp_path, hidden=hidden, oracle={"checks": [check]})
    for _ in range(3):
        (unit,) = grade(patch_of(context, {SOURCE: FIXED}), context).checks
        assert unit.outcome is Outcome.PASS
        assert "no decoy" not in unit.decided.why


@pytest.mark.req("G-01", "G-14")
def test_reference_that_does_not_build_does_not_fail_the_candidate(tasks: TaskFactory, tmp_path: Path) -> None:
    bare = tasks.context(tmp_path / "bare")
    reference = patch_of(bare, {SOURCE: FIXED, "broken": "x\n"}).decode()
    context = tasks.context(
        tmp_path / "task",
        files={"reference.patch": reference},
        reference="reference.patch",
        oracle={"checks": [UNIT], "build": "test ! -e broken"},
    )
    result = grade(patch_of(context, {SOURCE: FIXED}), context)
    assert result.accepted, result.checks[0].decided.why
    assert "no decoy tests: the reference does not build" in result.checks[0].decided.why


@pytest.mark.req("G-01")
@pytest.mark.usefixtures("fast_tests")
def test_either_of_two_runs_that_look_alike_may_be_first(
    tasks: TaskFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the clock or a counter of the host would tell code under test which run it is in."""
    context = context_with_reference(tasks, tmp_path)
    passing = grade(patch_of(context, {SOURCE: FIXED}), context)
    assert passing.accepted
    started: list[DecoyAssignment] = []

    def record(
        tests: PytestCheck, assignment: DecoyAssignment, on_built: Callable[[], None] = lambda: None
    ) -> DecoyRun:
        started.append(assignment)
        on_built()
        raise SandboxError("not needed here")

    monkeypatch.setattr(decoy_check, "run_decoys", record)
    for _ in range(40):  # all equal: one chance in 2^39
        grade(patch_of(context, {SOURCE: FIXED}), context)
    assert all(assignment.only == () and assignment.plan.alike for assignment in started)
    assert len({tuple(assignment.decoys) for assignment in started[::2]}) == 2


@pytest.mark.req("G-01")
def test_cpu_time_decides_whether_tests_take_long(
    tasks: TaskFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine every run takes long."""
    plans: list[DecoyPlan] = []
    drawn: list[float] = []

    def record_plan(tests: PytestCheck) -> DecoyPlan:
        plans.append(decoy_plan.decoy_plan(tests))
        return plans[-1]

    def record_time(targets: Sequence[DecoyTarget], reference_sec: float) -> tuple[tuple[int | None, ...], ...]:
        drawn.append(reference_sec)
        return draw_runs(targets, reference_sec)

    monkeypatch.setattr(decoy_check, "decoy_plan", record_plan)
    monkeypatch.setattr(decoy_plan, "draw_runs", record_time)
    repo = {**REPO, "conftest.py": "import time\n\ntime.sleep(1)\n"}
    context = context_with_reference(tasks, tmp_path, repo=repo)
    assert grade(patch_of(context, {SOURCE: FIXED}), context).accepted
    assert plans[0].reference_sec is not None
    assert 0 < drawn[0] < plans[0].reference_sec - 0.5


@pytest.mark.req("G-01")
@pytest.mark.usefixtures("slow_tests")
def test_every_run_is_logged(tasks: TaskFactory, tmp_path: Path) -> None:
    context = context_with_reference(tasks, tmp_path)
    grade(patch_of(context, {SOURCE: FIXED}), context)
    started = [event.step for event in logged_events(context, events.TestsStarted)]
    finished = logged_events(context, events.TestsFinished)
    assert sorted(started) == sorted(event.step for event in finished)
    assert [event.step for event in finished] == ["unit~1", "unit~2", "unit~3", "unit"]
    assert all("have a wrong expected value" in event.why for event in finished[:-1])


@pytest.mark.req("G-01", "E-06")
@pytest.mark.usefixtures("slow_tests")
def test_failed_runs_finish_in_the_log(tasks: TaskFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = context_with_reference(tasks, tmp_path)
    grade(patch_of(context, {SOURCE: FIXED}), context)  # draws the plan
    before = len(logged_events(context, events.TestsFinished))

    def fail_partial_runs(
        tests: PytestCheck, assignment: DecoyAssignment, on_built: Callable[[], None] = lambda: None
    ) -> DecoyRun:
        if assignment.only:
            raise SandboxError("no room for another replica")
        return run_decoys(tests, assignment, on_built)

    monkeypatch.setattr(decoy_check, "run_decoys", fail_partial_runs)
    (unit,) = grade(patch_of(context, {SOURCE: FIXED}), context).checks
    assert unit.outcome is Outcome.ERROR
    started = [event.step for event in logged_events(context, events.TestsStarted)]
    finished = logged_events(context, events.TestsFinished)
    assert sorted(started) == sorted(event.step for event in finished)
    assert all("no room for another replica" in event.why for event in finished[before:])


@pytest.mark.req("G-01", "G-15")
def test_failures_are_reported_from_the_real_tests(tasks: TaskFactory, tmp_path: Path) -> None:
    context = context_with_reference(tasks, tmp_path)
    (unit,) = grade(patch_of(context, {SOURCE: CORE + "\n"}), context).checks
    assert unit.outcome is Outcome.FAIL
    assert len(unit.decided.failing) == 4
    assert all(f"{test}: failed" in unit.decided.diagnostics for test in unit.decided.failing)
    assert "assert 3 == 2.5" in unit.decided.diagnostics
    assert logged_events(context, events.TestsFinished)[-1].step == "unit"


def test_failures_name_the_line_of_the_project_that_called_a_library(tasks: TaskFactory, tmp_path: Path) -> None:
    context = context_with_reference(tasks, tmp_path)
    broken = "import json\n\n\ndef median(values):\n    return json.loads('{')\n\n\nmean = spread = median\n"
    (unit,) = grade(patch_of(context, {SOURCE: broken}), context).checks
    assert "src/toy/core.py:5: json.decoder.JSONDecodeError: " in unit.decided.diagnostics
    assert "decoder.py:" not in unit.decided.diagnostics


@pytest.mark.req("G-01")
def test_every_grading_of_a_task_has_the_same_runs(tasks: TaskFactory, tmp_path: Path) -> None:
    """Code that could remember an earlier grading learns nothing from another."""
    context = context_with_reference(tasks, tmp_path)
    gradings = []
    for _ in range(3):
        before = len(logged_events(context, events.TestsFinished))
        grade(patch_of(context, {SOURCE: FIXED}), context)
        finished = logged_events(context, events.TestsFinished)[before:]
        gradings.append(sorted(event.why for event in finished if "~" in event.step))
    assert gradings[0] == gradings[1] == gradings[2]


ECHOES_WHEN_ALL_TESTS_RUN = (
    ANSWER_FROM_TESTS
    + """

def _read():
    import sys

    if "test_core" not in sys.modules:
        os._exit(0) if {exits} else None
        return ""
    return os.popen("cat /workspace/*/*").read()
"""
)


@pytest.mark.req("G-01")
@pytest.mark.usefixtures("slow_tests")
@pytest.mark.parametrize("exits", [False, True])
def test_code_that_reads_the_answers_in_one_run_only_fails(tasks: TaskFactory, tmp_path: Path, exits: bool) -> None:
    context = context_with_reference(tasks, tmp_path)
    result = grade(patch_of(context, {SOURCE: ECHOES_WHEN_ALL_TESTS_RUN.replace("{exits}", str(exits))}), context)
    assert not result.accepted
    assert result.checks[0].outcome is Outcome.FAIL


@pytest.mark.req("G-01")
def test_decoys_can_be_switched_off(tasks: TaskFactory, tmp_path: Path) -> None:
    context = context_with_reference(tasks, tmp_path)
    (unit,) = grade(patch_of(context, {SOURCE: FIXED}), context, decoys=False).checks
    assert unit.outcome is Outcome.PASS
    assert [event.step for event in logged_events(context, events.TestsFinished)] == ["unit"]


@pytest.mark.req("G-01", "G-14")
def test_random_results_fail(tasks: TaskFactory, tmp_path: Path) -> None:
    """Passing a decoy may be chance, but not repeating it is no reason to pass."""
    chance = CORE.replace(
        "    return ordered[middle]\n",
        "    import os\n    class Near(float):\n        def __eq__(self, other):\n"
        "            return os.urandom(1)[0] < 128 if len(ordered) % 2 == 0 else float(self) == other\n"
        "        __hash__ = float.__hash__\n    return Near(ordered[middle])\n",
    )
    context = context_with_reference(tasks, tmp_path)
    for _ in range(4):
        result = grade(patch_of(context, {SOURCE: chance}), context)
        assert result.checks[0].outcome is Outcome.FAIL


@pytest.mark.req("G-01", "C-06")
def test_runs_differ_only_in_test_sources(tasks: TaskFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither timestamps nor the data given to the runner reveal which tests are real."""
    selections: list[SelectedTests] = []
    run = PytestCheck.run

    def record(
        self: PytestCheck, tests: SelectedTests | None = None, on_built: Callable[[], None] = lambda: None
    ) -> PytestRun:
        selections.extend([tests] if tests is not None and tests.mutated else [])
        return run(self, tests, on_built)

    monkeypatch.setattr(PytestCheck, "run", record)
    context = context_with_reference(tasks, tmp_path)
    grade(patch_of(context, {SOURCE: FIXED}), context)
    assert len(selections) >= 2
    assert len({selection.mutated for selection in selections}) == 1
    assert len({frozenset(write.path for write in selection.tree.writes) for selection in selections}) == 1
    texts = {(write.path, write.content) for selection in selections for write in selection.tree.writes}
    assert len([path for path, _ in texts if path == b"tests/test_median_hidden.py"]) > 1


RAISING = """
def check(value):
    if value:
        raise {error}
"""


@pytest.mark.req("G-14")
@pytest.mark.parametrize("bases", ["ValueError, {}", "ValueError, TypeError, IndexError, KeyError, {}"])
def test_a_class_of_two_exceptions_is_not_tampering_and_one_of_many_is(
    tasks: TaskFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bases: str
) -> None:
    """The decoy expects the other base, which the reference's exception does not have."""
    monkeypatch.setattr(exceptions, "_FREQUENCY", {"ValueError": 1, "RuntimeError": 1})
    tests = "import pytest\nfrom toy.core import check\n\n\ndef test_it():\n    with pytest.raises(ValueError):\n        check(1)\n"
    unit = {**UNIT, "fail_to_pass": ["tests/test_check.py::test_it"], "pass_to_pass": []}
    shared: dict[str, object] = {"hidden": {"tests/test_check.py": tests}, "oracle": {"checks": [unit]}}
    reference = {SOURCE: CORE + RAISING.format(error="ValueError")}
    patch = patch_of(tasks.context(tmp_path / "bare", **shared), reference).decode()  # type: ignore[arg-type]
    context = tasks.context(
        tmp_path / "task",
        files={"reference.patch": patch},
        reference="reference.patch",
        **shared,  # type: ignore[arg-type]
    )
    error = f"\n\nclass Both({bases.format('RuntimeError')}):\n    pass\n\n"
    result = grade(patch_of(context, {SOURCE: CORE + error + RAISING.format(error="Both")}), context)
    accused = "passes_false_tests" in {finding.rule for finding in result.findings}
    assert (result.accepted, accused) == ((True, False) if bases.count(",") == 1 else (False, True))
