"""Validate tasks: baseline, reference, flaky checks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from agentbench.acceptance.checks.broken_check import BrokenCheck
from agentbench.acceptance.collect import collect
from agentbench.acceptance.grade import grade
from agentbench.acceptance.grading_context import GradingContext
from agentbench.acceptance.validation import baseline, find_flakes, validate
from agentbench.core.reasons import Outcome
from tests.acceptance.toy import CORE, FAIL_TO_PASS, FIXED, HIDDEN, PASS_TO_PASS, REPO, UNIT, TaskFactory, patch_of

pytestmark = pytest.mark.component

SH = {"app.sh": "echo old\n"}
CHECK = {"id": "c", "command": "grep new app.sh"}


def plain(
    tasks: TaskFactory, folder: Path, *checks: Mapping[str, object], files: dict[str, str] | None = None, **more: object
) -> GradingContext:
    oracle = {"checks": list(checks or (CHECK,))} if "validation" not in more else None
    return tasks.context(folder, repo=SH, hidden=None, setup=(), oracle=oracle, files=files, **more)


PATCH = "--- a/app.sh\n+++ b/app.sh\n@@ -1 +1 @@\n-echo old\n+echo new\n"


@pytest.mark.req("C-15")
def test_failing_baseline_is_run_once_and_cached(tasks: TaskFactory, tmp_path: Path) -> None:
    context = dataclasses.replace(plain(tasks, tmp_path), cache=tmp_path / "cache")  # other tests fill the shared one
    first, second = baseline(context), baseline(context)
    assert (first.failed_as_expected, first.exit_code, first.cached) == (True, 1, False)
    assert (second.failed_as_expected, second.exit_code, second.cached) == (True, 1, True)


@pytest.mark.req("C-15")
def test_passing_baseline_is_detected(tasks: TaskFactory, tmp_path: Path) -> None:
    report = baseline(plain(tasks, tmp_path, {"id": "c", "command": "grep old app.sh"}))
    assert not report.failed_as_expected
    short = plain(
        tasks, tmp_path / "short", validation={"failing_command": "true", "passing_command": "grep new app.sh"}
    )
    assert not baseline(short).failed_as_expected


@pytest.mark.req("C-15")
def test_short_form_baseline_is_its_failing_command(tasks: TaskFactory, tmp_path: Path) -> None:
    sections = {"failing_command": "echo printed; exit 7", "passing_command": "grep new app.sh"}
    report = baseline(plain(tasks, tmp_path, validation=sections))
    assert (report.failed_as_expected, report.exit_code, report.stdout) == (True, 7, b"printed\n")


@pytest.mark.req("G-14")
def test_baseline_that_cannot_run_is_an_error_of_the_task(tasks: TaskFactory, tmp_path: Path) -> None:
    context = plain(tasks, tmp_path, {"id": "c", "command": "no-such-program"})
    with pytest.raises(BrokenCheck, match="no-such-program"):
        baseline(context)
    report = validate(context)
    assert (report.valid, report.baseline) == (False, "error")


def test_missing_pytest_is_an_error_of_the_task(tasks: TaskFactory, tmp_path: Path) -> None:
    context = plain(tasks, tmp_path, {"id": "c", "command": "pytest", "parser": "pytest"})
    with pytest.raises(BrokenCheck, match="pytest is not installed"):
        baseline(context)


@pytest.mark.req("C-15")
@pytest.mark.parametrize(
    "name, text, state",
    [
        ("reference.patch", PATCH, "pass"),
        ("reference.sh", "echo 'echo new' > app.sh\n", "pass"),
        ("reference.py", "open('app.sh', 'w').write('echo new')\n", "pass"),
        ("reference.patch", PATCH.replace("+echo new", "+echo other"), "fail"),
        ("reference.patch", PATCH.replace("-echo old", "-echo else"), "fail"),
        ("reference.sh", "exit 3\n", "error"),
    ],
)
def test_the_reference_must_pass(tasks: TaskFactory, tmp_path: Path, name: str, text: str, state: str) -> None:
    report = validate(plain(tasks, tmp_path, files={name: text}, reference=name))
    assert (report.reference, report.valid) == (state, state == "pass")
    assert report.baseline == "fail"
    assert report.why


def test_task_without_reference_is_valid_and_says_so(tasks: TaskFactory, tmp_path: Path) -> None:
    report = validate(plain(tasks, tmp_path))
    assert (report.valid, report.reference) == (True, "none")
    assert "no reference" in report.why


COIN = "test $(od -An -N1 -tu1 /dev/urandom) -lt 128"


@pytest.mark.req("C-16")
def test_check_with_different_outcomes_is_flaky(tasks: TaskFactory, tmp_path: Path) -> None:
    flaky = {"id": "coin", "command": f"grep new app.sh && {COIN}"}
    files = {"reference.patch": PATCH}
    report = validate(plain(tasks, tmp_path / "a", flaky, files=files, reference="reference.patch"), repeats=12)
    assert (report.valid, report.flaky) == (False, ("coin",))
    assert "flaky: coin" in report.why


@pytest.mark.req("C-16")
def test_rerun_rule_makes_a_flaky_check_acceptable(tasks: TaskFactory, tmp_path: Path) -> None:
    ruled = {"id": "coin", "command": f"grep new app.sh || {COIN}", "reruns": 20}
    files = {"reference.patch": PATCH}
    report = validate(plain(tasks, tmp_path, ruled, files=files, reference="reference.patch"))
    assert (report.valid, report.baseline, report.reference) == (True, "fail", "pass")


# --- pytest -----------------------------------------------------------------------------------------------------------


@pytest.mark.req("C-15", "C-16")
def test_pytest_task_is_validated_by_its_tests(tasks: TaskFactory, tmp_path: Path) -> None:
    context = tasks.context(tmp_path)
    (tmp_path / "reference.patch").write_bytes(patch_of(context, {"src/toy/core.py": FIXED}))
    report = validate(tasks.context(tmp_path, reference="reference.patch"))
    assert report.why == "baseline fails, reference passes"
    assert (report.valid, report.flaky) == (True, ())
    assert report.decoy_coverage is not None
    assert 0 < report.decoy_coverage <= 1


@pytest.mark.req("C-15")
def test_required_tests_in_the_wrong_list_make_a_task_invalid(tasks: TaskFactory, tmp_path: Path) -> None:
    fails, passes = FAIL_TO_PASS[0], "tests/test_core.py::test_mean"
    check = {"id": "c", "command": "python -m pytest -q", "parser": "pytest"}
    report = validate(
        tasks.context(tmp_path, oracle={"checks": [check | {"fail_to_pass": [passes], "pass_to_pass": [fails]}]})
    )
    assert not report.valid
    assert f"c: tests of fail_to_pass pass on the base repository: {passes}" in report.why
    assert f"c: tests of pass_to_pass fail on the base repository: {fails}" in report.why


@pytest.mark.req("C-06")
def test_task_below_its_minimum_of_decoys_is_invalid_and_not_graded(tasks: TaskFactory, tmp_path: Path) -> None:
    """Without a reference no test has a decoy."""
    context = tasks.context(tmp_path, oracle={"min_decoy_coverage": 0.5})
    report = validate(context)
    assert not report.valid
    assert "oracle.min_decoy_coverage needs a reference" in report.why
    graded = grade(patch_of(context, {"src/toy/core.py": FIXED}), context)
    (result,) = graded.checks
    assert result.outcome is Outcome.ERROR
    assert result.decided.why == "0 of 4 fail-to-pass tests have a decoy that counts, oracle.min_decoy_coverage is 0.5"


@pytest.mark.req("C-06")
def test_inverted_conditions_do_not_meet_the_minimum_of_decoys(tasks: TaskFactory, tmp_path: Path) -> None:
    hidden = {
        "tests/test_median_hidden.py": """\
            from toy import median


            def test_below():
                assert median([1, 2, 3, 4]) < 3
            """
    }
    unit = {**UNIT, "fail_to_pass": ["tests/test_median_hidden.py::test_below"]}
    context = tasks.context(tmp_path, hidden=hidden)
    (tmp_path / "reference.patch").write_bytes(patch_of(context, {"src/toy/core.py": FIXED}))
    oracle = {"checks": [unit], "min_decoy_coverage": 0.5}
    context = tasks.context(tmp_path, hidden=hidden, reference="reference.patch", oracle=oracle)
    (result,) = grade(patch_of(context, {"src/toy/core.py": FIXED}), context).checks
    assert result.outcome is Outcome.ERROR
    assert "0 of 1 fail-to-pass tests have a decoy that counts" in result.decided.why


@pytest.mark.req("C-16")
def test_flaky_tests_beyond_the_tolerance_are_named(tasks: TaskFactory, tmp_path: Path) -> None:
    checks: list[dict[str, object]] = [
        {"id": "strict", "command": "false"},
        {"id": "lenient", "command": "false", "flake_tolerance": 0.5},
        {"id": "ruled", "command": "false", "reruns": 2},
    ]
    context = plain(tasks, tmp_path, *checks)
    runs = [{"a": "passed", "b": "failed"}, {"a": "passed", "b": "passed"}, {"a": "passed"}]
    flaky, blocking = find_flakes(context, [(str(check["id"]), runs) for check in checks])
    assert flaky == ("strict: b", "ruled: b")
    assert blocking == ("strict: b",)


SHORT = {"failing_command": "python -m pytest -q", "passing_command": "python -m pytest -q"}


@pytest.mark.req("C-06", "C-15")
def test_short_form_requires_tests_of_the_base_repository(tasks: TaskFactory, tmp_path: Path) -> None:
    context = tasks.context(tmp_path, validation=SHORT)
    (tmp_path / "reference.patch").write_bytes(patch_of(context, {"src/toy/core.py": FIXED}))
    context = tasks.context(tmp_path, validation=SHORT, reference="reference.patch")
    report = validate(context)
    assert (report.valid, report.baseline, report.reference) == (True, "fail", "pass")
    assert baseline(context).exit_code == 1


@pytest.mark.parametrize("with_reference", [True, False], ids=["reference", "none"])
def test_required_tests_are_collected_for_the_lock(tasks: TaskFactory, tmp_path: Path, with_reference: bool) -> None:
    context = tasks.context(tmp_path, validation=SHORT)
    if with_reference:
        (tmp_path / "reference.patch").write_bytes(patch_of(context, {"src/toy/core.py": FIXED}))
        context = tasks.context(tmp_path, validation=SHORT, reference="reference.patch")
    collected = collect(context)
    assert set(collected.checks["validation"].fail_to_pass) == set(FAIL_TO_PASS)
    assert set(collected.checks["validation"].pass_to_pass) == set(PASS_TO_PASS)
    assert collected.protected == ("tests/conftest.py", "tests/helpers.py", "tests/test_core.py")


def test_tests_unimportable_on_base_are_found_with_the_reference(tasks: TaskFactory, tmp_path: Path) -> None:
    hidden = {"tests/test_new.py": "from toy.core import mode\n\n\ndef test_mode():\n    assert mode([1, 1, 2]) == 1\n"}
    right = CORE + "\n\ndef mode(values):\n    return max(set(values), key=list(values).count)\n"
    context = tasks.context(tmp_path, hidden=hidden, validation=SHORT)
    (tmp_path / "reference.patch").write_bytes(patch_of(context, {"src/toy/core.py": right}))
    context = tasks.context(tmp_path, hidden=hidden, validation=SHORT, reference="reference.patch")
    report = validate(context)
    assert (report.valid, report.reference) == (True, "pass"), report.why
    assert collect(context).checks["validation"].fail_to_pass == ("tests/test_new.py::test_mode",)


def test_suite_whose_conftest_needs_the_fix_can_be_graded(tasks: TaskFactory, tmp_path: Path) -> None:
    hidden = {**HIDDEN, "tests/conftest.py": REPO["tests/conftest.py"] + "\n\n        from toy.core import mode\n"}
    context = tasks.context(tmp_path, hidden=hidden)
    (tmp_path / "reference.patch").write_bytes(patch_of(context, {"src/toy/core.py": FIXED + "\n\nmode = median\n"}))
    report = validate(tasks.context(tmp_path, hidden=hidden, reference="reference.patch"))
    assert (report.valid, report.baseline) == (True, "fail"), report.why


@pytest.mark.req("G-14")
@pytest.mark.parametrize("answers", [False, True], ids=["crashes", "answers"])
def test_driver_that_nothing_proves_makes_a_task_invalid(tasks: TaskFactory, tmp_path: Path, answers: bool) -> None:
    """The program of the base repository ends before the driver does, and there is no reference."""
    driver = 'read answer || exit 3\nprintf \'{"id": "a", "outcome": "fail"}\\n{"end": 1}\\n\' >&$AB_RESULT_FD\n'
    context = tasks.context(
        tmp_path,
        repo={"serve.sh": "echo no\n" if answers else "exit 1\n"},
        hidden=None,
        setup=(),
        oracle={"checks": [{"id": "p", "kind": "probe", "candidate": "sh serve.sh", "driver": "driver.sh"}]},
        files={"driver.sh": driver},
    )
    report = validate(context)
    assert (report.valid, report.baseline) == (answers, "fail")
    assert ("the driver does not finish on the base repository; add a reference" in report.why) is not answers
