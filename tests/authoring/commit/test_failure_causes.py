"""Commits that are rejected as tasks: flaky tests, the clock, the network, memory, changed dependencies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agentbench.acceptance.grade import grade
from agentbench.authoring.commit.commit_reader import TaskRequest
from agentbench.authoring.commit.comparison import Verification, compare, with_slow_run
from agentbench.authoring.commit.failure_causes import (
    drifted_dependencies,
    needs_network,
    parse_reasons,
    skip_reasons,
    uses_clock,
)
from agentbench.authoring.commit.from_commit import RUNS_AFTER_FLAKE, CreatedTask, from_commit
from agentbench.authoring.commit.split import UnsuitableCommit
from agentbench.authoring.commit.verification import FailureContext, verify
from agentbench.contract.load import load_task
from agentbench.execution.lab import Lab, PreparedTask
from tests.authoring.conftest import BEFORE, put
from tests.authoring.package_index import PackageIndex
from tests.workspace import reference_git

pytestmark = [pytest.mark.req("C-16", "C-17", "C-18"), pytest.mark.component]

FIXED = "def half(value):\n    return value / 2\n"
HEAD = "import os\nimport time\nimport pytest\nfrom calc import half\n\n\n"
MANY = "@pytest.mark.parametrize('value', range(40))\n"


def create(repo: Path, lab: Lab, files: Mapping[str, str | bytes], **more: object) -> CreatedTask:
    task = TaskRequest(
        repo=str(repo),
        suite_dir=repo.parent / "tasks/mine",
        pin=bool(more.pop("pin", False)),
        timeout_sec=60,
        **more,  # type: ignore[arg-type]
    )
    return from_commit(task, put(repo, {"calc.py": FIXED, **files}, "Fix half of odd numbers"), lab)


def rejection(repo: Path, lab: Lab, test: str, **more: object) -> UnsuitableCommit:
    with pytest.raises(UnsuitableCommit) as caught:
        create(repo, lab, {"tests/test_calc.py": HEAD + test}, **more)
    return caught.value


def test_unsteady_tests_are_deselected(repo: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    flaking = "tests/test_calc.py::test_luck[a b]"

    def unsteady(*given: Any) -> Verification:
        verification = compare(*given)
        kept = tuple(test for test in verification.pass_to_pass if test != flaking)
        return verification.model_copy(update={"pass_to_pass": kept, "unsteady": (flaking,)})

    monkeypatch.setattr("agentbench.authoring.commit.verification.compare", unsteady)
    test = "def test_odd():\n    assert half(3) == 1.5\n\n\n"
    luck = "@pytest.mark.parametrize('value', ['a b', '[x]'])\ndef test_luck(value):\n    pass\n"
    created = create(repo, lab, {"tests/test_calc.py": HEAD + test + luck})
    task = load_task(created.folder)
    assert flaking in (created.folder / "notes.md").read_text()
    context = lab.grading_context(lab.prepare(task))
    (check,) = grade((created.folder / "reference.patch").read_bytes(), context).checks
    assert set(check.decided.tests) == {"tests/test_calc.py::test_odd", "tests/test_calc.py::test_luck[[x]]"}


def test_flaky_tests_are_retried_with_a_fixed_hash_seed(repo: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """And with more runs: a test that passes every other time looks fixed in few of them."""
    tried: list[int] = []

    def verify_with_seed(
        prepared: PreparedTask,
        used: Lab,
        *,
        repeats: int,
        failure_context: FailureContext,
        notify: Callable[[str], None],
    ) -> Verification:
        tried.append(repeats)
        if not prepared.task.task.environment.env:
            raise UnsuitableCommit("flaky", "tests give different outcomes")
        return verify(prepared, used, repeats=repeats, failure_context=failure_context, notify=notify)

    monkeypatch.setattr("agentbench.authoring.commit.from_commit.verify", verify_with_seed)
    test = "def test_odd():\n    assert os.environ['PYTHONHASHSEED'] == '0' and half(3) == 1.5\n"
    created = create(repo, lab, {"tests/test_calc.py": HEAD + test})
    assert load_task(created.folder).task.environment.env == {"PYTHONHASHSEED": "0"}
    assert "PYTHONHASHSEED is fixed" in (created.folder / "notes.md").read_text()
    assert tried == [2, RUNS_AFTER_FLAKE]


def test_statement_of_a_person_may_be_as_short_as_a_subject_line(repo: Path, lab: Lab) -> None:
    test = HEAD + "def test_odd():\n    assert half(3) == 1.5\n"
    created = create(repo, lab, {"tests/test_calc.py": test}, statement="Halves of odd numbers are wrong.\n")
    assert not [flag for flag in created.flags if "subject line" in flag]


def test_flaky_tests_that_read_the_clock_are_timing_dependent(repo: Path, lab: Lab) -> None:
    luck = MANY + "def test_luck(value):\n    assert half(3) == 1.5 and os.urandom(1)[0] % 2\n\n\n"
    when = MANY + "def test_when(value):\n    assert half(3) == 1.5 and time.time_ns() // 1000 % 2\n"
    error = rejection(repo, lab, luck + when)
    assert error.kind == "timing-dependent"
    assert {test.partition("[")[0] for test in error.tests} == {"tests/test_calc.py::test_when"}
    assert error.tests[0] in error.message


def test_failure_on_a_slow_processor_is_timing_dependent() -> None:
    verification = Verification(
        fail_to_pass=("new",), pass_to_pass=("old", "timed"), unsteady=(), duration_sec=1.0, runs=4
    )
    kept = with_slow_run(verification, {"new": "passed", "old": "passed", "timed": "failed"})
    assert (kept.pass_to_pass, kept.unsteady, kept.runs) == (("old",), ("timed",), 5)
    with pytest.raises(UnsuitableCommit, match="slow processor: new") as caught:
        with_slow_run(verification, {"new": "failed", "old": "passed", "timed": "passed"})
    assert caught.value.kind == "timing-dependent"


def test_tests_that_need_the_network_are_rejected(repo: Path, lab: Lab) -> None:
    error = rejection(
        repo,
        lab,
        "import urllib.request\n\n\ndef test_far():\n    urllib.request.urlopen('http://example.org')\n    assert half(3)\n",
    )
    assert error.kind == "needs network"
    assert "test_far" in error.message


def test_parent_that_kills_the_test_process_is_rejected(repo: Path, lab: Lab) -> None:
    put(repo, {"calc.py": "import os\n\n\ndef half(value):\n    os._exit(0)\n"}, "Break")
    error = rejection(repo, lab, "def test_odd():\n    assert half(3) == 1.5\n")
    assert error.kind == "tests cannot run"
    assert error.message.endswith("pytest did not finish (exit 0), in tests/test_calc.py::test_odd")
    assert "starts its own process" in error.remedy


def test_parent_that_uses_too_much_memory_is_rejected(repo: Path, lab: Lab) -> None:
    eats = "def half(value):\n    kept = [bytearray(16 << 20) for _ in range(64)]\n    return value // 2\n"
    put(repo, {"calc.py": eats, "tests/test_calc.py": BEFORE["tests/test_calc.py"]}, "Eat")
    error = rejection(repo, lab, "def test_odd():\n    assert half(3) == 1.5\n", mem_limit_mb=256)
    assert error.kind == "out of memory"
    assert "killed on the parent: they use more than 256 MB" in error.message
    assert "--memory" in error.remedy


class TestDependencies:
    """`dep` 2.0 was released after the commit and no longer has `old`."""

    FILES: Mapping[str, str | bytes] = {
        "requirements.txt": "dep\n",
        "tests/test_calc.py": "import dep\nfrom calc import half\n\n\ndef test_odd():\n    assert half(3) == dep.old()\n",
    }

    @pytest.fixture(autouse=True)
    def _in_2024(self, index: PackageIndex, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", index.url)
        monkeypatch.setitem(reference_git.ENV, "GIT_COMMITTER_DATE", "2024-02-01T00:00:00Z")

    def fill(self, index: PackageIndex, *days: str | None) -> None:
        index.put("dep", "1.0", days[0], "def old():\n    return 1.5\n")
        index.put("dep", "2.0", days[1], "def new():\n    return 1.5\n")

    def test_dependencies_of_the_commits_day_are_pinned(self, repo: Path, lab: Lab, index: PackageIndex) -> None:
        self.fill(index, "2023-06-01", "2024-06-01")
        put(repo, {"requirements.txt": "dep\n"}, "Need dep")
        created = create(repo, lab, self.FILES, pin=True)
        assert "dep==1.0 --hash=sha256:" in created.draft.setup[0]
        assert "--require-hashes" in created.draft.setup[0]
        assert "as of 2024-02-01" in created.environment.remark
        assert created.environment.remark in (created.folder / "notes.md").read_text()

    def test_newer_dependencies_are_named_without_upload_times(self, repo: Path, lab: Lab, index: PackageIndex) -> None:
        self.fill(index, None, None)
        put(repo, {"requirements.txt": "dep\n"}, "Need dep")
        with pytest.raises(UnsuitableCommit) as caught:
            create(repo, lab, self.FILES)
        assert caught.value.kind == "dependency drift"
        assert "dep==2.0" in caught.value.message


class TestFailureCauses:
    def test_reasons_are_parsed_by_test(self) -> None:
        text = "a::b[x: y]: failed\n    f.py:3: OSError: gaierror\n    more\nc::d: not run\n"
        assert parse_reasons(text) == {"a::b[x: y]": "f.py:3: OSError: gaierror\nmore", "c::d": ""}

    def test_ordinary_failure_has_no_known_cause(self) -> None:
        reasons = {"a": "test_a.py:3: assert 1 == 2"}
        assert needs_network(reasons) == ()
        assert drifted_dependencies(reasons, ["dep==2.0"], ["old==1"]) == ()
        assert uses_clock(["t.py::a"], {"t.py": b"def a():\n    assert 1\n"}, reasons) == ()

    def test_undated_dependencies_count_only_if_named(self) -> None:
        reasons = {"a": "AttributeError: module 'dep' has no attribute 'old'"}
        assert drifted_dependencies(reasons, [], ["dep==2.0", "other==1"]) == ("dep==2.0",)
        assert drifted_dependencies({"a": "AttributeError: x"}, [], ["dep==2.0"]) == ()
        assert drifted_dependencies({"a": "AttributeError: x"}, ["dep==2.0"]) == ("dep==2.0",)


def test_skip_reasons_include_importorskip_of_whole_files() -> None:
    source = b"rich = pytest.importorskip('rich.console')\n# pytest.importorskip('old')\n"
    outcomes = {"a": "skipped", "b": "passed", "c": "skipped"}
    reasons = {"a": "Skipped: Needs Flask", "b": "Skipped: never"}
    assert skip_reasons(outcomes, reasons, {"x.py": source}) == ("Skipped: Needs Flask", "could not import 'rich'")
