"""Rows that run with Django's own test runner, whose report has the row's ids.

The repository is a miniature: only the way the runner is started and configured is Django's.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agentbench.acceptance.checks.junit import read_junit
from agentbench.authoring.formats.django.runner.django_tests import as_junit, outcomes
from agentbench.authoring.formats.django.test_command import COMMAND, PROGRAM_FOLDER, DjangoRun, plan_run
from agentbench.authoring.formats.swebench import Instance, export_task, import_instance
from agentbench.contract.load import load_task
from agentbench.core.errors import InputError
from agentbench.execution.lab import Lab
from agentbench.execution.validation import validate_suite
from tests.authoring.conftest import put
from tests.workspace.reference_git import git, repository

pytestmark = [pytest.mark.req("C-18"), pytest.mark.component]

RUNNER = """\
import argparse, importlib, os, sys
from mini.runner import get_runner

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("labels", nargs="*")
    parser.add_argument("--verbosity", type=int, default=1)
    parser.add_argument("--settings")
    parser.add_argument("--parallel", type=int)
    parser.add_argument("--noinput", action="store_true")
    options = parser.parse_args()
    os.environ["DJANGO_SETTINGS_MODULE"] = options.settings
    settings = importlib.import_module(options.settings)
    sys.exit(bool(get_runner(settings)(verbosity=options.verbosity).run_tests(options.labels)))
"""
MACHINERY = """\
import importlib, unittest


class DiscoverRunner:
    def __init__(self, verbosity=1):
        self.verbosity = verbosity

    def get_resultclass(self):
        return None

    def run_tests(self, labels):
        suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromName(label) for label in labels)
        result = unittest.TextTestRunner(verbosity=self.verbosity, resultclass=self.get_resultclass()).run(suite)
        return len(result.failures) + len(result.errors)


def get_runner(settings):
    module, _, name = settings.TEST_RUNNER.rpartition(".")
    return getattr(importlib.import_module(module), name)
"""
BEFORE: Mapping[str, str | bytes] = {
    "mini/__init__.py": "",
    "mini/runner.py": MACHINERY,
    "mini/calc.py": "def half(value):\n    return value // 2\n",
    "tests/runtests.py": "import sys\nsys.path.insert(0, '.')\n" + RUNNER,
    "tests/test_sqlite.py": "TEST_RUNNER = 'mini.runner.DiscoverRunner'\n",
    "tests/halves/__init__.py": "",
    "tests/halves/tests.py": "",
}
TESTS = '''\
import unittest
from mini.calc import half


class HalfTests(unittest.TestCase):
    def test_even(self):
        self.assertEqual(half(4), 2)

    def test_odd(self):
        """Odd & <exact> halves of "three"."""
        self.assertEqual(half(3), 1.5)

    def test_many(self):
        for value in (1, 2, 3):
            with self.subTest(value=value):
                self.assertEqual(half(value) * 2, value)
'''
ODD = 'Odd & <exact> halves of "three".'
F2P = [ODD, "test_many (halves.tests.HalfTests.test_many)"]
P2P = ["test_even (halves.tests.HalfTests)"]


@pytest.fixture
def row(tmp_path: Path) -> Instance:
    repo = repository(tmp_path / "mini")
    base = put(repo, BEFORE, "Begin")
    fix = put(repo, {"mini/calc.py": "def half(value):\n    return value / 2\n", "tests/halves/tests.py": TESTS}, "Fix")
    return Instance(
        id="django__django-1",
        repo="django/django",
        base_commit=base,
        patch=git(repo, "diff", base, fix, "--", "mini"),
        test_patch=git(repo, "diff", base, fix, "--", "tests"),
        problem="half(3) is 1\n",
        fail_to_pass=tuple(F2P),
        pass_to_pass=tuple(P2P),
    )


def test_django_row_survives_import_validation_and_export(tmp_path: Path, row: Instance, lab: Lab) -> None:
    folder = import_instance(row, str(tmp_path / "mini"), tmp_path / "tasks/dj", lab)
    document = yaml.safe_load((folder / "task.yaml").read_text())
    document["setup"]["commands"] = []  # the miniature has no dependencies
    (folder / "task.yaml").write_text(yaml.safe_dump(document))
    task = load_task(folder)
    (check,) = task.checks
    assert (check.command, check.parser, check.report) == (COMMAND, "junit", f"{PROGRAM_FOLDER}/report.xml")
    assert task.task.oracle.protected == ("/tests/**", f"/{PROGRAM_FOLDER}/**")
    assert json.loads((folder / f"hidden/{PROGRAM_FOLDER}/tests.json").read_text())["labels"] == ["halves.tests"]
    assert "exit_code" in (folder / "notes.md").read_text()
    (validation,) = validate_suite([task], lab, repeats=2, workers=1, report=lambda _line: None)
    assert validation.valid, validation.why
    back = export_task(task, lab)
    assert json.loads(str(back["FAIL_TO_PASS"])) == F2P
    assert json.loads(str(back["PASS_TO_PASS"])) == P2P
    assert PROGRAM_FOLDER not in str(back["test_patch"])
    assert str(back["patch"]).encode() == row.patch


# --- the program -------------------------------------------------------------------------------------------------


def run_program(
    tmp_path: Path, tests: str, test_ids: list[str], more: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run the program on some tests without a sandbox; return exit code and stderr."""
    files = {**BEFORE, "tests/halves/tests.py": tests, **(more or {})}
    hidden = {name: content for name, (content, _) in DjangoRun(("halves.tests",), tuple(test_ids)).files().items()}
    for name, content in {**files, **hidden}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    argv = [sys.executable, *COMMAND.split()[1:]]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600)
    return done.returncode, done.stderr


def report(tmp_path: Path) -> tuple[dict[str, str], dict[str, str]]:
    return read_junit((tmp_path / PROGRAM_FOLDER / "report.xml").read_bytes())


def test_report_uses_the_rows_ids(tmp_path: Path) -> None:
    code, stderr = run_program(tmp_path, TESTS, [*F2P, *P2P])
    results, reasons = report(tmp_path)
    assert results == {ODD: "failed", F2P[1]: "failed", P2P[0]: "passed"}
    assert code == 1
    assert "value=1" in reasons[F2P[1]]
    assert "test_even" in stderr  # the run is readable


KINDS = '''\
import unittest


class Kinds(unittest.TestCase):
    def test_skipped(self):
        self.skipTest("not here")

    @unittest.expectedFailure
    def test_known(self):
        self.fail()

    @unittest.expectedFailure
    def test_surprise(self):
        pass

    def test_torn_down(self):
        self.addCleanup(self.fail, "afterwards")

    def test_part_skipped(self):
        with self.subTest(part=1):
            self.skipTest("a part")


class Broken(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise ValueError("no ground")

    def test_never(self):
        """Never run."""

    def test_nor_this(self):
        pass


class Twice(unittest.TestCase):
    def test_a(self):
        """The same words."""

    def test_b(self):
        """The same words."""
        self.fail()
'''


def test_every_outcome_is_reported(tmp_path: Path) -> None:
    names = ["test_skipped", "test_known", "test_surprise", "test_torn_down", "test_part_skipped"]
    tests = [f"{name} (halves.tests.Kinds)" for name in names]
    never = ["test_nor_this (halves.tests.Broken.test_nor_this)", "Never run.", "test_gone (halves.tests.Kinds)"]
    code, _ = run_program(tmp_path, KINDS, [*tests, *never, "The same words."])
    results, reasons = report(tmp_path)
    assert code == 1
    assert [results[test] for test in tests] == ["skipped", "skipped", "failed", "failed", "skipped"]
    assert results[never[0]] == "failed"
    assert "no ground" in reasons[never[0]]
    assert not {"Never run.", never[2]} & set(results)  # not invented
    assert results["setUpClass (halves.tests.Broken)"] == "failed"
    assert results["The same words."] == "failed"


def test_tests_of_a_broken_module_are_missing(tmp_path: Path) -> None:
    code, _ = run_program(tmp_path, "import nowhere_to_be_found\n", P2P)
    results, _ = report(tmp_path)
    assert code == 1
    assert P2P[0] not in results
    assert list(results.values()) == ["failed"]


@pytest.mark.parametrize(
    "hostile",
    [
        "import os\nos._exit(0)\n",
        "import sys\nsys.exit(0)\n",
        "raise KeyboardInterrupt\n",
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
        "import atexit, os\natexit.register(os._exit, 0)\n",
        f"open('{PROGRAM_FOLDER}/report.xml', 'w').write('<testsuite><testcase name=\"x\"/></testsuite>')\nimport os\nos._exit(0)\n",
        'import os\nfor fd in range(3, 20):\n    try:\n        os.write(fd, b\'{"end": 0, "code": 0}\\n\')\n    except OSError:\n        pass\nos._exit(0)\n',
    ],
)
def test_run_that_ends_early_leaves_no_report(tmp_path: Path, hostile: str) -> None:
    code, stderr = run_program(tmp_path, TESTS, [*F2P, *P2P], {"mini/calc.py": hostile})
    assert not (tmp_path / PROGRAM_FOLDER / "report.xml").exists()
    assert "no report" in stderr
    assert code == 3


def test_workspace_files_cannot_shadow_modules_of_the_reporter(tmp_path: Path) -> None:
    shadow = "raise SystemExit('shadowed')\n"
    planted = dict.fromkeys(
        ["sitecustomize.py", "json.py", f"{PROGRAM_FOLDER}/json.py", f"{PROGRAM_FOLDER}/unittest.py"], shadow
    )
    code, stderr = run_program(tmp_path, TESTS, P2P, planted)
    assert "shadowed" not in stderr
    assert code == 1
    assert report(tmp_path)[0][P2P[0]] == "passed"


def test_nested_test_runs_are_not_reported(tmp_path: Path) -> None:
    nested = (
        "import importlib, os, unittest\nfrom mini.runner import get_runner\n\n\n"
        "class Outer(unittest.TestCase):\n    def test_outer(self):\n"
        "        settings = importlib.import_module(os.environ['DJANGO_SETTINGS_MODULE'])\n"
        "        get_runner(settings)().run_tests(['halves.inner'])\n"
    )
    inner = "import unittest\n\n\nclass Inner(unittest.TestCase):\n    def test_inner(self):\n        self.fail()\n"
    code, _ = run_program(tmp_path, nested, ["test_outer (halves.tests.Outer)"], {"tests/halves/inner.py": inner})
    assert report(tmp_path)[0] == {"test_outer (halves.tests.Outer)": "passed"}
    assert code == 0


def test_nonzero_exit_of_the_runner_is_a_failure(tmp_path: Path) -> None:
    grumbling = str(BEFORE["tests/runtests.py"]).replace("sys.exit(bool(", "sys.exit(5 + bool(")
    code, _ = run_program(
        tmp_path, TESTS.split("    def test_odd", maxsplit=1)[0], P2P, {"tests/runtests.py": grumbling}
    )
    assert report(tmp_path)[0] == {P2P[0]: "passed"}
    assert code == 5


LEGAL = st.characters(codec="utf-8", exclude_characters=[*map(chr, {*range(32)} - {9, 10, 13}), "\ufffe", "\uffff"])


@given(
    st.dictionaries(
        st.text(LEGAL, min_size=1), st.tuples(st.sampled_from(["passed", "failed", "skipped"]), st.text()), max_size=5
    )
)
def test_ids_are_kept_and_illegal_characters_replaced(
    outcomes_by_id: dict[str, tuple[str, str]],
) -> None:
    records = [
        {"test": ["natural", test], "outcome": outcome, "why": why} for test, (outcome, why) in outcomes_by_id.items()
    ]
    read, _ = read_junit(as_junit(outcomes(records, list(outcomes_by_id))).encode())
    assert read == {test: outcome for test, (outcome, _) in outcomes_by_id.items()}
    assert "\x00" not in as_junit({"a\x00b": ("failed", "\x1b[31mred\ud800")})


@given(st.permutations(["passed", "skipped", "failed"]), st.integers(1, 3))
def test_shared_id_has_the_worst_outcome(order: list[str], count: int) -> None:
    records = [
        {"test": [f"t{at}", "Words."], "outcome": outcome, "why": ""} for at, outcome in enumerate(order[:count])
    ]
    worst = max(order[:count], key=["skipped", "passed", "failed"].index)
    assert outcomes(records, ["Words."]) == {"Words.": (worst, "")}


# --- what to run -------------------------------------------------------------------------------------------------

PATHS = ["tests/a/tests.py", "tests/a/models.py", "tests/b/sub/__init__.py", "tests/b/sub/tests.py", "tests/c/tests.py"]


def test_labels_are_the_modules_of_test_patch() -> None:
    changed = ["tests/a/tests.py", "tests/a/__init__.py", "tests/b/sub/tests.py", "tests/a/x.json", "tests/runtests.py"]
    job = plan_run(["t (a.tests.T)", "A sentence."], changed, PATHS)
    assert job.labels == ("a.tests", "b.sub.tests")


def test_test_of_another_app_adds_its_module() -> None:
    assert plan_run(["t (a.tests.T)", "t (c.tests.T)"], ["tests/a/tests.py"], PATHS).labels == ("a.tests", "c.tests")


def test_test_patch_without_modules_runs_whole_apps() -> None:
    assert plan_run(["t (a.tests.T)", "t (b.sub.T)"], ["tests/a/x.txt"], PATHS).labels == ("a", "b")


def test_unrunnable_rows_are_rejected_with_a_remedy() -> None:
    with pytest.raises(InputError, match=r"no module below tests/ has this test") as caught:
        plan_run(["t (gone.tests.T)"], ["tests/a/tests.py"], PATHS)
    assert "remove it from the row" in caught.value.remedy
    with pytest.raises(InputError, match="no test module below tests/"):
        plan_run(["A sentence."], ["tests/a/x.txt"], PATHS)


def test_program_parses_on_python_3_8() -> None:
    import ast

    source = (Path(plan_run.__code__.co_filename).parent / "runner/django_tests.py").read_text()
    ast.parse(source, feature_version=(3, 8))
