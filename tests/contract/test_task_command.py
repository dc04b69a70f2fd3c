"""`ab init` and `ab task` from the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agentbench.cli.init import command as init
from agentbench.cli.task import command as task
from agentbench.contract.load import load_task
from agentbench.contract.suite import load_suite
from agentbench.core.errors import AgentBenchError, ContractError
from tests.contract.task_folders import task_with, write_task
from tests.workspace.reference_git import commit_all, repository

pytestmark = pytest.mark.component

SHORT_EXAMPLE = str(Path(__file__).parent / "short_example")


def ab(*words: str | Path) -> Result:
    verb, *rest = [str(word) for word in words]
    result = CliRunner().invoke(init if verb == "init" else task, rest if verb == "init" else [verb, *rest])
    if result.exception and not isinstance(result.exception, SystemExit | AgentBenchError):
        raise result.exception
    return result


def rejected(result: Result) -> tuple[str, ...]:
    assert isinstance(result.exception, AgentBenchError)
    assert result.exception.exit_code == 2
    return result.exception.problems if isinstance(result.exception, ContractError) else (result.exception.message,)


@pytest.mark.req("C-01")
def test_check_accepts_the_short_example() -> None:
    result = ab("check", SHORT_EXAMPLE)
    assert result.exit_code == 0
    assert result.stdout.startswith("ok  ")
    assert "pytest-bugfix-requests-parse" in result.stdout


@pytest.mark.req("C-01")
def test_check_reports_every_problem_of_every_path(tmp_path: Path) -> None:
    write_task(tmp_path / "a", task_with(id=None, title=5))
    write_task(tmp_path / "b", "x: [")
    problems = rejected(ab("check", tmp_path / "a", SHORT_EXAMPLE, tmp_path / "b", tmp_path / "gone"))
    assert len(problems) == 4


def test_check_json_is_one_document_and_exits_with_2(tmp_path: Path) -> None:
    write_task(tmp_path / "a", task_with(id=None))
    result = ab("check", tmp_path / "a", SHORT_EXAMPLE, "--json")
    assert result.exit_code == 2
    answer = json.loads(result.stdout)
    assert answer["ok"] is False
    assert [row["ok"] for row in answer["tasks"]] == [False, True]
    assert answer["tasks"][0]["details"][0]["key"] == "id"
    assert answer["tasks"][0]["details"][0]["line"] == 1
    assert answer["tasks"][1]["contract_id"].startswith("sha256:")
    assert ab("check", SHORT_EXAMPLE, "--json").exit_code == 0


def test_check_of_a_suite_finds_duplicate_ids(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_task(tmp_path / "dev" / name, task_with(id="same", suite="dev"))
    write_task(tmp_path / "dev" / "c", task_with(title=5, suite="dev"))
    problems = rejected(ab("check", tmp_path / "dev"))
    assert len(problems) == 2, problems


@pytest.mark.req("C-01")
def test_glob_over_a_suite_leaves_out_the_files_of_the_suite(tmp_path: Path) -> None:
    ab("init", tmp_path / "mine")
    names = sorted((tmp_path / "mine").iterdir())
    assert {"median-even", "scenario.yaml", "task.schema.json"} <= {path.name for path in names}
    assert ab("check", *names).stdout.count("ok  ") == 1
    assert ab("stats", *names).exit_code == 0
    assert rejected(ab("check", tmp_path / "mine" / "task.schema.json"))


def test_init_creates_a_valid_suite(tmp_path: Path) -> None:
    result = ab("init", tmp_path / "mine")
    assert result.exit_code == 0
    suite = load_suite("mine", tmp_path)
    (loaded,) = suite.tasks
    assert loaded.hidden_files()
    assert loaded.reference_file is not None
    assert loaded.reference_file.exists()
    assert not suite.scenario.scorers  # rules that hold without a solution would contradict the checks of every failure
    assert ab("check", tmp_path / "mine").exit_code == 0


@pytest.mark.req("G-14")
@pytest.mark.parametrize("source", [[], ["--url", "https://example.org/r.git", "--commit", "a" * 40]])
def test_new_task_with_a_probe_has_a_driver(tmp_path: Path, source: list[str]) -> None:
    assert ab("new", tmp_path / "mine/one", "--probe", *source).exit_code == 0
    (probe,) = [check for check in load_suite("mine", tmp_path).tasks[0].checks if check.kind == "probe"]
    assert probe.driver == "driver.py"
    driver = (tmp_path / "mine/one/driver.py").read_text()
    assert "class Probe:" in driver
    compile(driver, "driver.py", "exec")


def test_example_task_needs_its_reference_to_pass(tmp_path: Path) -> None:
    """Runs the required tests in plain Python on the host; the sandbox tests run the real thing."""
    ab("init", tmp_path / "mine")
    loaded = load_task(tmp_path / "mine" / "median-even")
    folder = loaded.repo_folder
    assert folder is not None
    assert sorted(failing(loaded.folder, folder)) == sorted(
        test.partition("::")[2] for test in loaded.checks[0].fail_to_pass
    )
    assert loaded.reference_file is not None
    module = folder / "tinystats" / "__init__.py"
    module.write_text(patched(module.read_text(), loaded.reference_file.read_text()))
    assert failing(loaded.folder, folder) == []


def failing(task_folder: Path, repo: Path) -> list[str]:
    package: dict[str, object] = {}
    exec((repo / "tinystats" / "__init__.py").read_text(), package)  # noqa: S102 - the example's own package
    failed = []
    for file in [repo / "tests" / "test_tinystats.py", task_folder / "hidden" / "tests" / "test_tinystats_hidden.py"]:
        lines = [line for line in file.read_text().splitlines() if not line.startswith("from tinystats")]
        scope: dict[str, object] = dict(package)
        exec("\n".join(lines), scope)  # noqa: S102 - the example's own tests
        for name, test in scope.items():
            if name.startswith("test_") and callable(test):
                try:
                    test()
                except AssertionError:
                    failed.append(name)
    return failed


def patched(text: str, patch: str) -> str:
    """Apply the single hunk of the reference."""
    lines = patch.splitlines()
    hunk = lines[next(index for index, line in enumerate(lines) if line.startswith("@@")) + 1 :]
    old = "\n".join(line[1:] for line in hunk if line[:1] in {" ", "-"})
    new = "\n".join(line[1:] for line in hunk if line[:1] in {" ", "+"})
    assert text.count(old) == 1
    return text.replace(old, new)


def test_init_keeps_existing_files(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert ab("init", tmp_path / "mine").exit_code == 0
    assert "not an empty folder" in rejected(ab("init", tmp_path / "mine"))[0]
    (tmp_path / "file").write_text("x")
    assert "not an empty folder" in rejected(ab("init", tmp_path / "file"))[0]
    assert (tmp_path / "file").read_text() == "x"


@pytest.mark.parametrize("name", ["demo", "a b", "-x"])
def test_init_rejects_invalid_suite_names(tmp_path: Path, name: str) -> None:
    rejected(ab("init", tmp_path / name))
    assert list(tmp_path.iterdir()) == []


def test_init_reports_write_failures(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert "cannot write" in rejected(ab("init", tmp_path / "file" / "mine"))[0]


def test_new_creates_a_task_from_a_repository(tmp_path: Path) -> None:
    result = ab(
        "new",
        tmp_path / "dev" / "fix",
        "--url",
        "https://x.org/r.git",
        "--commit",
        "1234567",
        "--test-command",
        'pytest -k "a b"',
    )
    assert result.exit_code == 0
    loaded = load_task(tmp_path / "dev" / "fix")
    assert (loaded.task.id, loaded.task.suite) == ("fix", "dev")
    assert loaded.baseline_command == 'pytest -k "a b"'
    assert loaded.task.repo.commit == "1234567"  # type: ignore[union-attr]


def test_new_without_a_source_creates_the_example(tmp_path: Path) -> None:
    assert ab("new", tmp_path / "dev" / "try", "--json").exit_code == 0
    assert load_task(tmp_path / "dev" / "try").repo_folder is not None


def test_new_leaves_nothing_behind_if_the_task_is_invalid(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    problems = rejected(ab("new", tmp_path / "dev" / "fix", "--url", "https://x.org/r.git"))
    assert "`url` needs `commit`" in problems[0]
    assert list((tmp_path / "dev").iterdir()) == []
    (tmp_path / "dev" / "fix").mkdir()
    assert "already exists" in rejected(ab("new", tmp_path / "dev" / "fix"))[0]


@pytest.mark.req("C-13")
def test_stats_show_strata_and_proxies(tmp_path: Path) -> None:
    ab("init", tmp_path / "mine")
    shutil.copytree(SHORT_EXAMPLE, tmp_path / "mine" / "d")
    result = ab("stats", tmp_path / "mine", "--json")
    rows = {row["task_id"]: row for row in json.loads(result.stdout)["tasks"]}
    assert rows["median-even"]["complexity"]["files"] == 2
    assert rows["median-even"]["complexity"]["label"].startswith("proxies")
    assert rows["pytest-bugfix-requests-parse"]["complexity"] is None
    assert json.loads(result.stdout)["strata"]["kind"] == {"(not given)": 1, "bugfix": 1}
    text = ab("stats", tmp_path / "mine")
    assert "2 files, 26 lines" in text.stdout
    assert "not measured" in text.stdout
    assert "proxies" in text.stderr


@pytest.mark.req("C-13")
def test_stats_measure_a_local_clone_and_download_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AB_STATE", str(tmp_path / "state"))
    clone = repository(tmp_path / "clone")
    (clone / "core.py").write_text("def f():\n    return 1\n")
    repo = {"url": "../../clone", "origin": "https://unreachable.invalid/x.git", "commit": commit_all(clone)}
    write_task(tmp_path / "tasks" / "one", task_with(repo=repo))
    text = ab("stats", tmp_path / "tasks" / "one").stdout
    assert "1 files, 2 lines" in text
    shutil.rmtree(clone)
    assert "not measured: the repository is not on this machine" in ab("stats", tmp_path / "tasks" / "one").stdout
