"""Decide patches by the tests of their project, in a real sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.acceptance.decoys.decoy_check import NO_REFERENCE
from agentbench.acceptance.grade import grade
from agentbench.acceptance.grading_context import Acceptance, GradingContext, Unlogged
from agentbench.core.reasons import Assurance, Outcome
from agentbench.trace.events import AcceptanceCheck
from tests.acceptance.toy import (
    CORE,
    FAIL_TO_PASS,
    FIXED,
    HIDDEN,
    PASS_TO_PASS,
    REPO,
    SETUP,
    UNIT,
    Changes,
    TaskFactory,
    patch_of,
)

pytestmark = pytest.mark.component

FIX: Changes = {"src/toy/core.py": FIXED}


@pytest.fixture(scope="module")
def context(tasks: TaskFactory, tmp_path_factory: pytest.TempPathFactory) -> GradingContext:
    return tasks.context(tmp_path_factory.mktemp("task"))


@pytest.mark.req("G-01", "C-06")
def test_correct_patch_passes_with_every_required_test(context: GradingContext) -> None:
    graded = grade(patch_of(context, FIX), context)
    (unit,) = graded.checks
    assert (unit.outcome, unit.decided.why) == (Outcome.PASS, f"12 required tests passed; {NO_REFERENCE}")
    assert unit.decided.assurance is Assurance.PER_TEST
    assert unit.decided.exit_code == 0
    assert (unit.decided.f2p_passed, unit.decided.f2p_total) == (4, 4)
    assert (unit.decided.p2p_kept, unit.decided.p2p_total) == (8, 8)
    assert graded.accepted
    assert not graded.findings


@pytest.mark.req("E-06")
def test_empty_patch_fails_and_names_tests_and_lines(context: GradingContext) -> None:
    graded = grade(b"", context)
    (unit,) = graded.checks
    assert unit.outcome is Outcome.FAIL
    assert unit.decided.failing == FAIL_TO_PASS
    assert "tests/test_median_hidden.py:9: assert 3 == 2.5" in unit.decided.diagnostics
    assert "tests/test_median_hidden.py:18: AssertionError: 3 != 2.5" in unit.decided.diagnostics
    assert unit.decided.tests["tests/test_core.py::test_skipped"] == "skipped"
    assert unit.decided.tests["tests/test_core.py::test_known"] == "xfailed"
    assert unit.decided.tests["tests/test_core.py::test_named[a b]"] == "passed"
    assert (unit.decided.f2p_passed, unit.decided.p2p_kept) == (0, 8)


def test_output_shows_no_canary_tests(context: GradingContext) -> None:
    shown = grade(patch_of(context, FIX), context).checks[0].decided.stdout.kept.decode()
    assert "12 passed, 1 skipped, 1 xfailed" in shown
    assert "FAILED" not in shown


def test_failing_subtest_fails_its_test(context: GradingContext) -> None:
    almost = FIXED.replace("/ 2\n", "/ 2 + (values == [2, 3])\n")
    (unit,) = grade(patch_of(context, {"src/toy/core.py": almost}), context).checks
    assert unit.decided.failing == ("tests/test_median_hidden.py::TestMedian::test_sub",)


def test_runner_is_not_in_sys_modules(context: GradingContext) -> None:
    search = r"""
import re
import sys


def mean(values):
    files = [str(getattr(module, "__file__", "")) for module in list(sys.modules.values())]
    # The canary tests are listed, as every test module is.
    assert [file for file in files if re.match(r"/opt/[0-9a-f]{12}/(?!test_)", file)] == []
    assert [file for file in files if re.match(r"/opt/[0-9a-f]{12}/test_", file)] != []
    return sum(values) / len(values)
"""
    (unit,) = grade(patch_of(context, {"src/toy/core.py": FIXED + search}), context).checks
    assert unit.outcome is Outcome.PASS, unit.decided.diagnostics


def with_check(tasks: TaskFactory, folder: Path, changes: Changes = FIX, **check: object) -> Acceptance:
    context = tasks.context(folder, oracle={"checks": [{**UNIT, **check}]})
    return grade(patch_of(context, changes), context)


@pytest.mark.parametrize(
    "command",
    [
        "pytest",
        "python3 -m pytest -x -q --maxfail=1",
        "cd tests && python -m pytest -q -p no:cacheprovider ..",
        "PYTHONPATH=src:tests PYTHONHASHSEED=1 pytest tests --import-mode=importlib",
        "python -W error -X utf8 -m pytest tests/test_core.py tests/test_median_hidden.py",
    ],
)
def test_arguments_of_pytest_calls_take_effect(tasks: TaskFactory, tmp_path: Path, command: str) -> None:
    graded = with_check(tasks, tmp_path, command=command)
    assert graded.checks[0].outcome is Outcome.PASS, graded.checks[0].decided


FORMS = {
    "cd tests && pytest -q": "assert os.getcwd() == '/workspace/tests'",
    "/opt/env/bin/python3 -m pytest": "assert sys.executable == '/opt/env/bin/python3'",
    "cd tests && ../../opt/env/bin/python -m pytest": "assert os.getcwd() == '/workspace/tests'",
    "python -W error -m pytest": "pytest.raises(UserWarning, warnings.warn, 'x')",
    "python -I -X utf8 -m pytest": "assert sys.flags.utf8_mode and sys.flags.ignore_environment",
    "env MODE=1 pytest": "assert os.environ['MODE'] == '1'",
    "MODE='a b' python -m pytest": "assert os.environ['MODE'] == 'a b'",
    "cd tests && MODE=1 python -Werror -m pytest .": "assert os.environ['MODE']; pytest.raises(UserWarning, warnings.warn, 'x')",
}


@pytest.mark.req("C-06")
@pytest.mark.parametrize("command", FORMS)
def test_each_form_of_a_pytest_call_gets_per_test_assurance(tasks: TaskFactory, tmp_path: Path, command: str) -> None:
    """The runner makes the call itself, so the hidden test sees the folder, interpreter, flags and variables of the command."""
    surroundings = f"import os, sys, warnings\n\nimport pytest\n\n\ndef test_call():\n    {FORMS[command]}\n"
    context = tasks.context(
        tmp_path,
        hidden={**HIDDEN, "tests/test_call.py": surroundings},
        validation={"failing_command": command, "passing_command": command},
    )
    (fixed,) = grade(patch_of(context, FIX), context).checks
    (unfixed,) = grade(b"", context).checks
    assert (fixed.outcome, fixed.decided.why) == (Outcome.PASS, f"13 required tests passed; {NO_REFERENCE}")
    assert set(unfixed.decided.failing) == set(FAIL_TO_PASS)
    assert isinstance(context.log, Unlogged)
    logged = [payload for payload in context.log.payloads if isinstance(payload, AcceptanceCheck)]
    assert [event.assurance for event in logged] == [Assurance.PER_TEST] * 2


@pytest.mark.req("G-14")
def test_interpreter_without_pytest_is_an_error_of_the_task(tasks: TaskFactory, tmp_path: Path) -> None:
    command = "/usr/bin/python3 -m pytest"
    context = tasks.context(tmp_path, validation={"failing_command": command, "passing_command": command})
    (check,) = grade(patch_of(context, FIX), context).checks
    assert (check.outcome, check.decided.assurance) == (Outcome.ERROR, Assurance.PER_TEST)
    assert "pytest is not installed" in check.decided.why


@pytest.mark.req("C-06")
@pytest.mark.parametrize("by_build", [False, True], ids=["by the patch", "by the build"])
def test_interpreter_in_the_workspace_cannot_be_replaced(tasks: TaskFactory, tmp_path: Path, *, by_build: bool) -> None:
    command = "tools/python -m pytest"
    context = tasks.context(
        tmp_path,
        repo={**REPO, "tools/python": '#!/bin/sh\nexec /opt/env/bin/python "$@"\n', "build.sh": "true\n"},
        setup=(*SETUP, "chmod +x tools/python"),
        oracle={"build": "sh build.sh"} if by_build else {},
        validation={"failing_command": command, "passing_command": command},
    )
    forged = {"build.sh": "echo exit 0 > tools/python\n"} if by_build else {"tools/python": "#!/bin/sh\nexit 0\n"}
    graded = grade(patch_of(context, {**FIX, **forged}), context)
    (check,) = graded.checks
    assert check.decided.assurance is Assurance.PER_TEST
    if by_build:
        assert check.outcome is Outcome.FAIL
        assert [finding.path for finding in graded.findings if finding.severity == "gate"] == ["tools/python"]
    else:
        assert graded.restored == (b"tools/python",)
        assert check.outcome is Outcome.PASS


@pytest.mark.req("G-14")
def test_required_test_that_the_command_deselects_fails(tasks: TaskFactory, tmp_path: Path) -> None:
    decided = with_check(tasks, tmp_path, command="python -m pytest -k 'not even'").checks[0].decided
    assert (decided.outcome, decided.failing) == (Outcome.FAIL, FAIL_TO_PASS[:1])
    assert "not run" in decided.diagnostics


@pytest.mark.parametrize("name", ["test_skipped", "test_known", "test_gone"])
def test_skipped_xfailed_and_missing_required_tests_fail(tasks: TaskFactory, tmp_path: Path, name: str) -> None:
    wanted = f"tests/test_core.py::{name}"
    decided = with_check(tasks, tmp_path, pass_to_pass=[*PASS_TO_PASS, wanted]).checks[0].decided
    assert (decided.outcome, decided.failing) == (Outcome.FAIL, (wanted,))


@pytest.mark.req("G-14")
@pytest.mark.parametrize("command", ["python -m pytest --no-such-option", "pytest -p no_such_plugin"])
def test_invalid_pytest_call_is_an_error_of_the_task(tasks: TaskFactory, tmp_path: Path, command: str) -> None:
    assert with_check(tasks, tmp_path, command=command).checks[0].outcome is Outcome.ERROR


def test_other_commands_are_graded_by_exit_code_and_say_so(tasks: TaskFactory, tmp_path: Path) -> None:
    graded = with_check(tasks, tmp_path, command="python -m pytest -q | tail -1 | grep -q '12 passed'")
    (unit,) = graded.checks
    assert (unit.outcome, unit.decided.assurance) == (Outcome.PASS, Assurance.EXIT_CODE)
    assert "only the exit code counts" in unit.decided.why


def test_failing_tests_added_by_the_patch_do_not_count(context: GradingContext) -> None:
    extra = {
        **FIX,
        "scratch/test_x.py": "def test_x():\n    assert False\n",
        "tests/test_y.py": "import nothing_here\n",
    }
    assert grade(patch_of(context, extra), context).accepted


TAMPER = """\
    import pathlib, sysconfig
    site = pathlib.Path(sysconfig.get_path("purelib"))
    {action}
    """


@pytest.mark.parametrize(
    "action",
    [
        "(site / 'pytest' / '__init__.py').write_text('raise SystemExit(0)')",
        "(site / '_pytest' / 'reports.py').open('a').write('TestReport.failed = False')",
        "(site / 'zz.pth').write_text('import sys; sys.zz = 1')",
        "(site / 'sitecustomize.py').write_text('import os, sys; os._exit(0) if \"run.py\" in str(sys.orig_argv) else 0')",
        "p = pathlib.Path(sysconfig.get_path('scripts'), 'python'); p.unlink(); p.write_text('#!/bin/sh'); p.chmod(0o755)",
    ],
    ids=["pytest", "inside", "path file", "start-up", "interpreter"],
)
def test_build_that_changes_the_runner_fails(tasks: TaskFactory, tmp_path: Path, action: str) -> None:
    context = tasks.context(tmp_path, oracle={"build": "python src/toy/build.py 2>/dev/null || true", "checks": [UNIT]})
    graded = grade(
        patch_of(context, {"src/toy/core.py": CORE, "src/toy/build.py": TAMPER.format(action=action)}), context
    )
    assert not graded.accepted
    assert graded.checks[0].outcome is Outcome.FAIL
    assert "build_changed_runner" in {finding.rule for finding in graded.findings}


def test_ordinary_build_passes(tasks: TaskFactory, tmp_path: Path) -> None:
    context = tasks.context(tmp_path, oracle={"build": "python -m compileall -q src", "checks": [UNIT]})
    assert grade(patch_of(context, FIX), context).accepted


READER = CORE + "\n\ndef read(path):\n    with open(path) as file:\n        return file.read()\n"
READS = """\
    from toy import core


    def test_reads_a_file():
        assert "test_reads_a_file" in core.read(__file__)
    """


@pytest.mark.parametrize("peeks", [False, True], ids=["passed on", "searched"])
def test_test_may_pass_its_own_file_to_the_code_under_test(tasks: TaskFactory, tmp_path: Path, peeks: bool) -> None:
    check = {**UNIT, "fail_to_pass": ["tests/test_reads.py::test_reads_a_file"]}
    context = tasks.context(
        tmp_path,
        hidden={"tests/test_reads.py": READS.replace("__file__", "3") if peeks else READS},
        oracle={"checks": [check]},
    )
    code = READER.replace("open(path)", "open(__file__[:-15] + 'tests/test_reads.py')") if peeks else READER
    graded = grade(patch_of(context, {"src/toy/core.py": code}), context)
    assert graded.accepted is not peeks
    assert [(finding.rule, finding.severity) for finding in graded.findings] == [("watched_run", "gate")] * peeks


COPY_LIBRARY = "import glob, shutil, sysconfig\nshutil.copy(glob.glob(sysconfig.get_config_var('DESTSHARED') + '/*.so')[0], {to!r})\n"
"""Makes a native library, as a compiler would."""


LOAD_IN_A_FORK = """
import os


def load_in_a_fork():
    child = os.fork()
    if not child:
        try:
            ctypes.CDLL('/tmp/made.so')
        except OSError:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


load_in_a_fork()
"""


def test_library_made_while_tests_run_is_a_finding(tasks: TaskFactory, tmp_path: Path) -> None:
    context = tasks.context(
        tmp_path,
        repo={**REPO, "build.py": COPY_LIBRARY.format(to="built.so")},
        oracle={"build": "python build.py", "checks": [UNIT]},
    )
    load = "import ctypes\nctypes.CDLL('/workspace/built.so')\n" + LOAD_IN_A_FORK + "ctypes.CDLL('/tmp/made.so')\n"
    graded = grade(
        patch_of(context, {"src/toy/core.py": FIXED + COPY_LIBRARY.format(to="/tmp/made.so") + load}), context
    )
    assert graded.accepted
    findings = {(finding.rule, finding.severity, finding.path) for finding in graded.findings}
    assert findings == {("compiled_file", "note", "/tmp/made.so"), ("native_code", "note", "src/toy/core.py")}
