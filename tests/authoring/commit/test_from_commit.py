"""Creating a task from a commit, and the commits that cannot become one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbench.acceptance.grade import grade
from agentbench.acceptance.validation import baseline
from agentbench.authoring.commit.commit_reader import TaskRequest, read_commit
from agentbench.authoring.commit.from_commit import from_commit
from agentbench.authoring.commit.split import UnsuitableCommit
from agentbench.contract.load import load_task
from agentbench.contract.schema import Repo
from agentbench.core.errors import InputError, SourceError
from agentbench.execution.lab import Lab
from agentbench.execution.validation import validate_suite
from tests.authoring.conftest import FIX, put
from tests.session_state import link_interpreter_layer
from tests.workspace.reference_git import commit_all, git, repository

pytestmark = [pytest.mark.req("C-18", "C-13", "C-16"), pytest.mark.component]


def request_for(repo: Path, **more: object) -> TaskRequest:
    return TaskRequest(repo=str(repo), suite_dir=repo.parent / "tasks/mine", pin=False, timeout_sec=60, **more)  # type: ignore[arg-type]


@pytest.fixture
def own_lab(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Iterator[Lab]:
    """A lab whose cache no other worker fills meanwhile."""
    state = tmp_path / "own-state"
    link_interpreter_layer(tmp_path_factory, state)
    with Lab(sandbox="bwrap", state=state) as lab:
        yield lab


def rejection(repo: Path, commit: str, lab: Lab, kind: str) -> UnsuitableCommit:
    with pytest.raises(UnsuitableCommit) as caught:
        read_commit(request_for(repo), commit, lab)
    assert caught.value.kind == kind
    assert caught.value.exit_code == 2
    return caught.value


class TestVerified:
    def test_fix_becomes_a_valid_task(self, repo: Path, own_lab: Lab) -> None:
        lab = own_lab
        git(repo, "config", "remote.origin.url", "https://example.org/calc.git")
        fix = put(repo, FIX, "Fix half of odd numbers (#12)\n\nIt must be exact.\n\nSigned-off-by: a <a@b>")
        created = from_commit(request_for(repo), fix, lab)
        assert set(created.verification.fail_to_pass) == {
            "tests/test_calc.py::test_odd[a b]",
            "tests/test_calc.py::test_odd[[x]]",
        }
        assert created.verification.pass_to_pass == ("tests/test_calc.py::test_even",)
        loaded = load_task(created.folder)
        assert loaded.statement == "Fix half of odd numbers\n\nIt must be exact.\n"
        assert set(loaded.hidden_files()) == {b"tests/test_calc.py"}
        assert b"value / 2" in (created.folder / "reference.patch").read_bytes()
        assert loaded.task.strata.kind == "bugfix"
        assert created.environment.unpinned == "--no-pin was given"
        assert (
            "NOT PINNED, so the environment can change: --no-pin was given\n"
            in (created.folder / "notes.md").read_text()
        )
        assert isinstance(loaded.task.repo, Repo)
        assert loaded.task.repo.origin == "https://example.org/calc.git"
        assert loaded.checks[0].fail_to_pass == created.verification.fail_to_pass
        cached = sorted(path.name for path in lab.grading_cache.glob("*.json"))
        renamed = load_task(created.folder.rename(created.folder.with_name("renamed")))
        graded = grade(created.draft.reference, lab.grading_context(lab.prepare(renamed)))
        assert graded.accepted
        assert baseline(lab.grading_context(lab.prepare(renamed))).cached
        assert sorted(path.name for path in lab.grading_cache.glob("*.json")) == cached
        (valid,) = validate_suite([renamed], lab, repeats=2, workers=1, report=lambda _line: None)
        assert valid.valid, valid.why
        assert [path.name for path in repo.parent.iterdir() if "draft" in path.name] == []

    def test_message_that_only_the_tests_know_needs_approval(self, repo: Path, lab: Lab) -> None:
        test = "import pytest\nfrom calc import half\n\n\ndef test_text():\n    with pytest.raises({}):\n        half('a')\n"
        files = {
            "calc.py": "def half(v):\n    if v == 'a':\n        raise KeyError(f'cannot halve {v}')\n    return v // 2\n",
            "tests/test_text.py": test.format("KeyError, match='cannot halve a'"),
        }
        created = from_commit(request_for(repo), put(repo, files, "Reject text\n\nHalf of a text means nothing."), lab)
        assert created.suggestions == (
            "`half('a')` raises `KeyError`.",
            "`half('a')` raises `KeyError` with a message that matches 'cannot halve a'.",
        )
        assert [flag.partition(",")[0] for flag in created.flags] == [
            "hidden tests demand the exception type KeyError",
            "hidden tests demand the exact text 'cannot halve a'",
        ]
        notes = (created.folder / "notes.md").read_text()
        assert all(f"- {flag}\n" in notes for flag in created.flags)

    def test_tests_that_pass_on_the_parent_are_rejected(self, repo: Path, lab: Lab) -> None:
        extra = {
            "calc.py": "def half(value):\n    return value // 2  # half\n",
            "tests/test_more.py": "def test_one():\n    pass\n",
        }
        with pytest.raises(UnsuitableCommit, match="also pass on its parent") as caught:
            from_commit(request_for(repo), put(repo, extra, "Say more"), lab)
        assert caught.value.kind == "does not fail on parent"
        assert not list(repo.parent.glob("tasks/mine/*"))

    @pytest.mark.slow
    def test_hanging_parent_is_told_from_slow_tests(self, repo: Path, lab: Lab) -> None:
        put(
            repo,
            {
                "calc.py": "import time\n\n\ndef half(value):\n    time.sleep(1000 * (value % 2))\n    return value // 2\n"
            },
            "Hang",
        )
        fix = put(repo, FIX, "Fix")
        slow = TaskRequest(repo=str(repo), suite_dir=repo.parent / "tasks/mine", pin=False, timeout_sec=15)
        with pytest.raises(
            UnsuitableCommit, match=r"more than 15 s on the parent, in tests/test_calc.py::test_odd\[a b\]"
        ) as caught:
            from_commit(slow, fix, lab)
        assert caught.value.kind == "hangs on parent"

    def test_failed_setup_shows_the_end_of_its_log(self, repo: Path, lab: Lab) -> None:
        put(repo, {"setup.py": "raise SystemExit('needs a missing library')\n"}, "Package")
        with pytest.raises(UnsuitableCommit, match="setup failed") as caught:
            from_commit(request_for(repo), put(repo, FIX, "Fix"), lab)
        assert "needs a missing library" in caught.value.remedy


class TestRejected:
    def test_root_commit(self, tmp_path: Path, lab: Lab) -> None:
        folder = repository(tmp_path / "r")
        rejection(folder, put(folder, FIX, "All"), lab, "root commit")

    def test_empty_commit(self, repo: Path, lab: Lab) -> None:
        rejection(repo, commit_all(repo, "nothing"), lab, "empty commit")

    def test_merge_commit_needs_first_parent(self, repo: Path, lab: Lab) -> None:
        git(repo, "checkout", "-q", "-b", "side")
        put(repo, FIX, "Fix")
        git(repo, "checkout", "-q", "main")
        put(repo, {"other.txt": "x"}, "Other")
        git(repo, "merge", "-q", "--no-ff", "-m", "Merge", "side")
        merge = git(repo, "rev-parse", "HEAD").decode().strip()
        assert "--first-parent" in rejection(repo, merge, lab, "merge commit").remedy
        data = read_commit(request_for(repo, first_parent=True), merge, lab)
        assert list(data.hidden) == ["tests/test_calc.py"]

    def test_no_test_change(self, repo: Path, lab: Lab) -> None:
        rejection(repo, put(repo, {"calc.py": FIX["calc.py"]}, "Fix"), lab, "no test change")

    def test_no_source_change(self, repo: Path, lab: Lab) -> None:
        files = {"tests/test_calc.py": FIX["tests/test_calc.py"], "CHANGES.rst": "more\n"}
        rejection(repo, put(repo, files, "Test"), lab, "no source change")

    def test_tests_in_lfs(self, repo: Path, lab: Lab) -> None:
        pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 9\n"
        assert "big.bin" in str(rejection(repo, put(repo, {**FIX, "tests/big.bin": pointer}, "Fix"), lab, "lfs"))

    def test_submodule_update(self, repo: Path, lab: Lab) -> None:
        put(repo, FIX, "Fix")
        git(repo, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},vendored")
        git(repo, "commit", "-q", "--amend", "-m", "Fix")
        commit = git(repo, "rev-parse", "HEAD").decode().strip()
        assert "vendored" in str(rejection(repo, commit, lab, "submodule"))

    def test_shallow_clone(self, repo: Path, lab: Lab, tmp_path: Path) -> None:
        fix = put(repo, FIX, "Fix")
        git(tmp_path, "clone", "-q", "--depth=1", repo.as_uri(), "shallow")
        with pytest.raises(SourceError, match="shallow clone") as caught:
            read_commit(request_for(tmp_path / "shallow"), fix, lab)
        assert "--unshallow" in caught.value.remedy

    def test_missing_commit(self, repo: Path, lab: Lab) -> None:
        with pytest.raises(SourceError, match="has no commit"):
            read_commit(request_for(repo), "0" * 40, lab)
        with pytest.raises(SourceError, match="the history is shorter"):
            read_commit(request_for(repo), "HEAD~99", lab)

    def test_revision_suffixes_are_resolved(self, repo: Path, lab: Lab) -> None:
        fix = put(repo, FIX, "Fix")
        put(repo, {"other.txt": "x"}, "Other")
        assert read_commit(request_for(repo), "HEAD~1", lab).commit.id == fix
        assert read_commit(request_for(repo), "main^", lab).commit.id == fix

    def test_message_keeps_control_characters(self, repo: Path, lab: Lab) -> None:
        fix = put(repo, FIX, "Fix\n\n\x1e half \x1f of 3")
        assert read_commit(request_for(repo), fix, lab).commit.message.strip().endswith("\x1e half \x1f of 3")

    def test_existing_task(self, repo: Path, lab: Lab) -> None:
        fix = put(repo, FIX, "Fix")
        (repo.parent / f"tasks/mine/calc-{fix[:10]}").mkdir(parents=True)
        with pytest.raises(InputError, match="already exists"):
            from_commit(request_for(repo), fix, lab)

    @pytest.mark.parametrize("name", ["../calc", "..", "a/b", "-x"])
    def test_path_as_name_touches_nothing(self, repo: Path, lab: Lab, name: str) -> None:
        fix = put(repo, FIX, "Fix")
        with pytest.raises(InputError, match="task id: expected letters"):
            from_commit(request_for(repo, task_id=name), fix, lab)
        with pytest.raises(InputError, match=r"--suite-dir .*: expected letters"):
            from_commit(TaskRequest(repo=str(repo), suite_dir=repo.parent / "tasks/my suite"), fix, lab)
        assert (repo / "calc.py").is_file()


class TestSplit:
    def test_binary_test_data_and_non_utf8_names_are_kept(self, repo: Path, lab: Lab) -> None:
        content = bytes(range(256))
        (repo / "tests").mkdir(exist_ok=True)
        with open(bytes(repo / "tests") + b"/caf\xe9.dat", "wb") as file:  # noqa: PTH123 - a name of bytes
            file.write(content)
        fix = put(repo, {**FIX, "tests/latin.py": "é = 1\n".encode("latin-1")}, "Fix")
        data = read_commit(request_for(repo), fix, lab)
        assert data.hidden["tests/caf\udce9.dat"] == (content, False)
        assert data.hidden["tests/latin.py"][0] == "é = 1\n".encode("latin-1")

    def test_renamed_test_file_has_its_new_name(self, repo: Path, lab: Lab) -> None:
        git(repo, "mv", "tests/test_calc.py", "tests/test_half.py")
        fix = put(repo, {"calc.py": FIX["calc.py"], "tests/test_half.py": FIX["tests/test_calc.py"]}, "Fix")
        data = read_commit(request_for(repo), fix, lab)
        assert list(data.hidden) == ["tests/test_half.py"]
        assert data.parts.removed_tests == ("tests/test_calc.py",)
        assert b"tests/" not in data.patch

    def test_tests_beside_the_code_are_found(self, repo: Path, lab: Lab) -> None:
        files = {
            "src/pkg/a.py": "x = 1\n",
            "src/pkg/tests/test_a.py": "",
            "other/b_test.py": "",
            "src/pkg/conftest.py": "",
        }
        data = read_commit(request_for(repo), put(repo, files, "Add"), lab)
        assert set(data.hidden) == {"src/pkg/tests/test_a.py", "other/b_test.py", "src/pkg/conftest.py"}
        assert data.parts.runnable == ("other/b_test.py", "src/pkg/tests/test_a.py")
        assert [change.path for change in data.parts.source] == [b"src/pkg/a.py"]

    @pytest.mark.parametrize(
        "more, tests", [({}, {"calc/test.py"}), ({"tests/test_calc.py": ""}, {"tests/test_calc.py"})]
    )
    def test_ambiguous_test_module_counts_only_without_other_tests(
        self, repo: Path, lab: Lab, more: dict[str, str], tests: set[str]
    ) -> None:
        files = {"calc/client.py": "x = 1\n", "calc/test.py": "class Client: pass\n", **more}
        data = read_commit(request_for(repo), put(repo, files, "Fix the client"), lab)
        assert set(data.hidden) == tests
        assert (b"calc/test.py" in data.patch) is bool(more)

    def test_changed_test_data_runs_the_tests_that_mention_it(self, repo: Path, lab: Lab) -> None:
        tests = {
            "tests/test_words.py": "from . import helper\nWORDS = open('tests/data/words.txt')\n",
            "tests/test_other.py": "words = 1\n",
            "tests/helper.py": "",
            "tests/data/words.txt": "",
            "tests/data/lost.bin": "",
        }
        put(repo, tests, "Test words")
        for name in ("tests/data/words.txt", "tests/helper.py"):
            data = read_commit(
                request_for(repo), put(repo, {"calc.py": f"name = {name!r}\n", name: "x = 1\n"}, "Fix"), lab
            )
            assert data.parts.runnable == ("tests/test_words.py",)
            assert set(data.hidden) == {name}
        for name in ("tests/data/lost.bin", "tests/requirements.txt", "tests/README.md", "tests/conftest.py"):
            error = rejection(
                repo, put(repo, {"calc.py": f"name = {name!r}\n", name: "more = 1\n"}, "Fix"), lab, "no test change"
            )
            assert error.remedy
