"""Commits that would make bad tasks, each recognised for what it is; small repositories made up for the purpose."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentbench.acceptance.grade import grade
from agentbench.authoring.commit.failure_causes import moved_on, needs_network, skip_reasons, uses_clock, whys_of
from agentbench.authoring.commit.from_commit import Made, Wanted, from_commit
from agentbench.authoring.commit.split import Unsuitable
from agentbench.authoring.commit.test_comparison import Proof, compare, slowed
from agentbench.authoring.commit.verification import Circumstance, prove
from agentbench.contract.load import load_task
from agentbench.run.lab import Lab, PreparedTask
from tests.authoring.conftest import BEFORE, put
from tests.authoring.made_up_index import Shelf
from tests.workspace import reference_git

pytestmark = pytest.mark.req("C-16", "C-17", "C-18")

FIXED = "def half(value):\n    return value / 2\n"
HEAD = "import os\nimport time\nimport pytest\nfrom calc import half\n\n\n"
MANY = "@pytest.mark.parametrize('value', range(40))\n"


def made(repo: Path, lab: Lab, files: Mapping[str, str | bytes], **more: object) -> Made:
    wanted = Wanted(
        repo=str(repo),
        suite_dir=repo.parent / "tasks/mine",
        pin=bool(more.pop("pin", False)),
        timeout_sec=60,
        **more,  # type: ignore[arg-type]
    )
    return from_commit(wanted, put(repo, {"calc.py": FIXED, **files}, "Fix half of odd numbers"), lab)


def refused(repo: Path, lab: Lab, test: str, **more: object) -> Unsuitable:
    with pytest.raises(Unsuitable) as found:
        made(repo, lab, {"tests/test_calc.py": HEAD + test}, **more)
    return found.value


def test_what_flakes_is_not_run_by_the_task(repo: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    flaking = "tests/test_calc.py::test_luck[a b]"

    def unsteady(*given: Any) -> Proof:
        proof = compare(*given)
        kept = tuple(test for test in proof.pass_to_pass if test != flaking)
        return dataclasses.replace(proof, pass_to_pass=kept, unsteady=(flaking,))

    monkeypatch.setattr("agentbench.authoring.commit.verification.compare", unsteady)
    test = "def test_odd():\n    assert half(3) == 1.5\n\n\n"
    luck = "@pytest.mark.parametrize('value', ['a b', '[x]'])\ndef test_luck(value):\n    pass\n"
    found = made(repo, lab, {"tests/test_calc.py": HEAD + test + luck})
    task = load_task(found.folder)
    assert flaking in (found.folder / "notes.md").read_text()
    context = lab.grading_context(lab.prepare(task))
    (check,) = grade((found.folder / "reference.patch").read_bytes(), context).checks
    assert set(check.decided.tests) == {"tests/test_calc.py::test_odd", "tests/test_calc.py::test_luck[[x]]"}


def test_tests_that_flake_by_the_order_of_sets_are_taken_with_that_order_fixed(
    repo: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prove_in_order(prepared: PreparedTask, used: Lab, *, repeats: int, known: Circumstance) -> Proof:
        if not prepared.task.task.environment.env:
            raise Unsuitable("flaky", "tests give different outcomes")
        return prove(prepared, used, repeats=repeats, known=known)

    monkeypatch.setattr("agentbench.authoring.commit.from_commit.prove", prove_in_order)
    test = "def test_odd():\n    assert os.environ['PYTHONHASHSEED'] == '0' and half(3) == 1.5\n"
    done = made(repo, lab, {"tests/test_calc.py": HEAD + test})
    assert load_task(done.folder).task.environment.env == {"PYTHONHASHSEED": "0"}
    assert "PYTHONHASHSEED is fixed" in (done.folder / "notes.md").read_text()


def test_of_tests_that_flake_those_that_look_at_the_clock_are_told(repo: Path, lab: Lab) -> None:
    luck = MANY + "def test_luck(value):\n    assert half(3) == 1.5 and os.urandom(1)[0] % 2\n\n\n"
    when = MANY + "def test_when(value):\n    assert half(3) == 1.5 and time.time_ns() // 1000 % 2\n"
    error = refused(repo, lab, luck + when)
    assert error.kind == "timing-dependent"
    assert {test.partition("[")[0] for test in error.tests} == {"tests/test_calc.py::test_when"}
    assert error.tests[0] in error.message


def test_a_test_that_fails_only_on_a_slow_machine_depends_on_the_clock() -> None:
    proof = Proof(("new",), ("old", "timed"), (), 1.0, 4)
    kept = slowed(proof, {"new": "passed", "old": "passed", "timed": "failed"})
    assert (kept.pass_to_pass, kept.unsteady, kept.runs) == (("old",), ("timed",), 5)
    with pytest.raises(Unsuitable, match="processor is slow: new") as found:
        slowed(proof, {"new": "failed", "old": "passed", "timed": "passed"})
    assert found.value.kind == "timing-dependent"


def test_tests_that_need_a_network(repo: Path, lab: Lab) -> None:
    error = refused(
        repo,
        lab,
        "import urllib.request\n\n\ndef test_far():\n    urllib.request.urlopen('http://example.org')\n    assert half(3)\n",
    )
    assert error.kind == "needs network"
    assert "test_far" in error.message


def test_a_parent_that_ends_the_process_of_its_tests(repo: Path, lab: Lab) -> None:
    put(repo, {"calc.py": "import os\n\n\ndef half(value):\n    os._exit(0)\n"}, "Break")
    error = refused(repo, lab, "def test_odd():\n    assert half(3) == 1.5\n")
    assert error.kind == "tests cannot run"
    assert error.message.endswith("ended with 0 before its end, at tests/test_calc.py::test_odd")
    assert "a process of its own" in error.remedy


def test_a_parent_that_eats_memory(repo: Path, lab: Lab) -> None:
    eats = "def half(value):\n    kept = [bytearray(16 << 20) for _ in range(64)]\n    return value // 2\n"
    put(repo, {"calc.py": eats, "tests/test_calc.py": BEFORE["tests/test_calc.py"]}, "Eat")
    error = refused(repo, lab, "def test_odd():\n    assert half(3) == 1.5\n", mem_limit_mb=256)
    assert error.kind == "out of memory"
    assert "more than 256 MB on the parent" in error.message
    assert "--memory" in error.remedy


class TestDependencies:
    """`dep` 2.0 came out after the commit and has no `old` any more."""

    FILES: Mapping[str, str | bytes] = {
        "requirements.txt": "dep\n",
        "tests/test_calc.py": "import dep\nfrom calc import half\n\n\ndef test_odd():\n    assert half(3) == dep.old()\n",
    }

    @pytest.fixture(autouse=True)
    def _then(self, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", shelf.url)
        monkeypatch.setitem(reference_git.ENV, "GIT_COMMITTER_DATE", "2024-02-01T00:00:00Z")

    def fill(self, shelf: Shelf, *days: str | None) -> None:
        shelf.put("dep", "1.0", days[0], "def old():\n    return 1.5\n")
        shelf.put("dep", "2.0", days[1], "def new():\n    return 1.5\n")

    def test_are_those_of_the_commits_day_and_locked(self, repo: Path, lab: Lab, shelf: Shelf) -> None:
        self.fill(shelf, "2023-06-01", "2024-06-01")
        put(repo, {"requirements.txt": "dep\n"}, "Need dep")
        found = made(repo, lab, self.FILES, pin=True)
        assert "dep==1.0 --hash=sha256:" in found.draft.setup[0]
        assert "--require-hashes" in found.draft.setup[0]
        assert "as of 2024-02-01" in found.remark
        assert found.remark in (found.folder / "notes.md").read_text()

    def test_that_moved_on_are_named_where_no_index_tells_days(self, repo: Path, lab: Lab, shelf: Shelf) -> None:
        self.fill(shelf, None, None)
        put(repo, {"requirements.txt": "dep\n"}, "Need dep")
        with pytest.raises(Unsuitable) as found:
            made(repo, lab, self.FILES)
        assert found.value.kind == "dependency drift"
        assert "dep==2.0" in found.value.message


class TestSymptoms:
    def test_words_of_failures_are_read_by_test(self) -> None:
        text = "a::b[x: y]: failed\n    f.py:3: OSError: gaierror\n    more\nc::d: not run\n"
        assert whys_of(text) == {"a::b[x: y]": "f.py:3: OSError: gaierror\nmore", "c::d": ""}

    def test_an_ordinary_failure_is_none_of_them(self) -> None:
        whys = {"a": "test_a.py:3: assert 1 == 2"}
        assert needs_network(whys) == ()
        assert moved_on(whys, ["dep==2.0"], ["old==1"]) == ()
        assert uses_clock(["t.py::a"], {"t.py": b"def a():\n    assert 1\n"}, whys) == ()

    def test_only_what_is_named_counts_where_ages_are_unknown(self) -> None:
        whys = {"a": "AttributeError: module 'dep' has no attribute 'old'"}
        assert moved_on(whys, [], ["dep==2.0", "other==1"]) == ("dep==2.0",)
        assert moved_on({"a": "AttributeError: x"}, [], ["dep==2.0"]) == ()
        assert moved_on({"a": "AttributeError: x"}, ["dep==2.0"]) == ("dep==2.0",)


def test_why_tests_are_skipped_is_told_by_them_or_by_the_file_that_is_skipped_whole() -> None:
    source = b"rich = pytest.importorskip('rich.console')\n# pytest.importorskip('old')\n"
    outcomes = {"a": "skipped", "b": "passed", "c": "skipped"}
    whys = {"a": "Skipped: Needs Flask", "b": "Skipped: never"}
    assert skip_reasons(outcomes, whys, {"x.py": source}) == ("Skipped: Needs Flask", "could not import 'rich'")
