"""Comparing runs of parent and fix, and explaining failed ones."""

from __future__ import annotations

import pytest

from agentbench.authoring.commit.comparison import compare
from agentbench.authoring.commit.failure_causes import missing_modules
from agentbench.authoring.commit.split import UnsuitableCommit
from agentbench.authoring.commit.verification import setup_log_tail, with_error_first
from agentbench.sandbox.protocol import SetupStep

pytestmark = [pytest.mark.req("C-16", "C-15"), pytest.mark.component]

PASS, FAIL, SKIP = "passed", "failed", "skipped"


def kind_of(before: list[dict[str, str]], after: list[dict[str, str]]) -> str:
    with pytest.raises(UnsuitableCommit) as caught:
        compare(before, after, 1.0)
    return caught.value.kind


def test_fail_to_pass_and_pass_to_pass_are_determined() -> None:
    before = [{"old": PASS, "new": FAIL, "away": PASS}] * 2
    verification = compare(before, [{"old": PASS, "new": PASS, "fresh": PASS, "other": SKIP, "away": FAIL}] * 2, 1.0)
    assert (verification.fail_to_pass, verification.pass_to_pass, verification.runs) == (("new", "fresh"), ("old",), 4)


def test_unsteady_test_of_the_fix_is_flaky() -> None:
    with pytest.raises(UnsuitableCommit, match="lucky") as caught:
        compare([{"lucky": FAIL, "new": FAIL}] * 2, [{"lucky": PASS, "new": PASS}, {"lucky": FAIL, "new": PASS}], 1.0)
    assert caught.value.kind == "flaky"
    assert kind_of([{"new": FAIL}, {"new": PASS}], [{"new": PASS}] * 2) == "flaky"


def test_flaky_test_on_the_parent_is_not_required() -> None:
    before = [{"lucky": FAIL, "new": FAIL}, {"lucky": PASS, "new": FAIL}]
    verification = compare(before, [{"lucky": PASS, "new": PASS}] * 2, 1.0)
    assert (verification.fail_to_pass, verification.pass_to_pass, verification.unsteady) == (("new",), (), ("lucky",))


def test_function_with_changing_parameter_ids_is_left_out() -> None:
    def run(outcome: str, now: str) -> dict[str, str]:
        return {"t.py::new": outcome, f"t.py::now[{now}]": PASS, "t.py::now[0]": PASS, "t.py::old[0]": PASS}

    verification = compare([run(FAIL, "18:01"), run(FAIL, "18:02")], [run(PASS, "18:03"), run(PASS, "18:04")], 1.0)
    assert (verification.fail_to_pass, verification.pass_to_pass) == (("t.py::new",), ("t.py::old[0]",))
    assert verification.unsteady == ("t.py::now",)


def test_constant_parameters_that_show_the_defect_are_kept() -> None:
    def run(outcome: str, now: str) -> dict[str, str]:
        return {"t.py::t[True]": outcome, f"t.py::t[{now}]": PASS, "t.py::t[0]": PASS}

    verification = compare([run(FAIL, "18:01"), run(FAIL, "18:02")], [run(PASS, "18:03"), run(PASS, "18:04")], 1.0)
    assert (verification.fail_to_pass, verification.pass_to_pass) == (("t.py::t[True]",), ("t.py::t[0]",))
    assert verification.unsteady == ()
    assert verification.tolerance == 0.84


def test_too_many_unsteady_tests_are_flaky() -> None:
    luck = {f"t{number}": PASS for number in range(30)}
    after = [{"new": PASS, **luck}, {"new": PASS, **dict.fromkeys(luck, FAIL)}]
    assert kind_of([{"new": FAIL, **luck}] * 2, after) == "flaky"


def test_unsteady_old_test_is_not_required() -> None:
    verification = compare(
        [{"old": PASS, "new": FAIL}] * 2, [{"old": PASS, "new": PASS}, {"old": FAIL, "new": PASS}], 1.0
    )
    assert (verification.fail_to_pass, verification.pass_to_pass, verification.unsteady) == (("new",), (), ("old",))


def test_reasons_without_a_fail_to_pass_test() -> None:
    assert kind_of([{"a": PASS}] * 2, [{"a": PASS}] * 2) == "does not fail on parent"
    with pytest.raises(UnsuitableCommit, match="1 more are skipped: b"):
        compare([{"a": PASS, "b": SKIP}] * 2, [{"a": PASS, "b": SKIP}] * 2, 1.0)
    assert kind_of([{"a": FAIL}] * 2, [{"a": FAIL}] * 2) == "fails with the fix"
    assert kind_of([{"a": FAIL, "b": PASS}] * 2, [{"a": FAIL, "b": PASS}] * 2) == "fails with the fix"
    assert kind_of([{"a": SKIP}] * 2, [{"a": SKIP}] * 2) == "skipped"
    assert kind_of([{}] * 2, [{}] * 2) == "tests cannot run"


@pytest.mark.parametrize(
    "output, hint",
    [
        (b"error: command 'gcc' failed: No such file or directory", "install one on the host"),
        (b"WARNING: Retrying: NewConnectionError('<...>: Failed to establish')", "cannot reach the package index"),
        (
            b"ERROR: Could not find a version of nothing (from versions: none)",
            "not found on any index, or no index can be reached",
        ),
        (b"ERROR: No matching distribution found for nothing", ""),
    ],
)
def test_setup_log_tail_gives_advice(output: bytes, hint: str) -> None:
    step = SetupStep("pip install -e .", False, 1, 1.0, False, b"first\n" * 50, output)
    shown = setup_log_tail([step])
    assert output.decode() in shown
    assert shown.count("first") < 12
    assert hint in shown
    assert setup_log_tail([]) == ""


@pytest.mark.parametrize(
    "message, first",
    [
        (
            "pytest cannot run `x` on R (exit 1): exec(x)\n  File x\nTypeError: no such thing",
            "TypeError: no such thing",
        ),
        ("one line: ValueError: so", "one line: ValueError: so"),
        ("ended\nwith nothing that tells", "ended"),
    ],
)
def test_error_line_comes_first(message: str, first: str) -> None:
    text = with_error_first(message)
    assert text.splitlines()[0] == first
    assert message in text


def test_missing_modules_exclude_submodules() -> None:
    output = ["E   ModuleNotFoundError: No module named 'yaml'", "No module named attr", "No module named 'a.b'"]
    assert missing_modules(output) == ("yaml", "attr")
