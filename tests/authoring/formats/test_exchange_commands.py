"""Importing and exporting several tasks at once: invalid ones are reported, the others are converted."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agentbench.cli.task import command
from agentbench.contract.load import load_task
from agentbench.core.errors import InputError
from tests.authoring.conftest import FIX, put
from tests.authoring.formats.test_harbor import harbor
from tests.authoring.formats.test_harbor import task as written
from tests.workspace.reference_git import git

pytestmark = [pytest.mark.req("C-18"), pytest.mark.component]


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AB_STATE", str(tmp_path / "state"))


def ab(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


@pytest.fixture
def suite(tmp_path: Path, repo: Path) -> Path:
    """A suite with one exportable task, one without a git repository, and an invalid one."""
    folder = written(tmp_path)
    good = folder.with_name("good")
    (good / "hidden/tests").mkdir(parents=True)
    base = git(repo, "rev-parse", "HEAD").decode().strip()
    fix = put(repo, FIX, "Fix")
    (good / "fix.patch").write_bytes(git(repo, "diff", base, fix, "--", "calc.py"))
    (good / "hidden/tests/test_a.py").write_text("pass\n")
    text = (folder / "task.yaml").read_text().replace("id: t\n", "id: good\n")
    source = f"repo: {{url: {os.path.relpath(repo, good)}, commit: '{base}'}}"
    (good / "task.yaml").write_text(text.replace("repo: {path: repo}", source))
    (folder.with_name("broken")).mkdir()
    (folder.with_name("broken") / "task.yaml").write_text("id: broken\n")
    return folder.parent


def test_swebench_export_skips_tasks_without_a_row(suite: Path, tmp_path: Path) -> None:
    done = ab("export", "swebench", suite, "--out", tmp_path / "rows.jsonl")
    assert done.exit_code == 2
    assert [json.loads(line)["instance_id"] for line in (tmp_path / "rows.jsonl").read_text().splitlines()] == ["good"]
    assert f"rejected {suite / 't'}: t: SWE-bench needs a git repository" in done.output
    assert f"rejected {suite / 'broken'}: " in done.output
    assert "1 row written, 2 tasks rejected" in done.output
    assert ab("export", "swebench", suite / "good", "--out", tmp_path / "rows.jsonl").exit_code == 0


def test_harbor_export_skips_invalid_tasks(suite: Path, tmp_path: Path) -> None:
    done = ab("export", "harbor", suite, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["good", "t"]
    assert f"rejected {suite / 'broken'}: " in done.output
    assert "2 tasks written, 1 rejected" in done.output
    again = ab("export", "harbor", suite / "t", "--out", tmp_path / "out")
    assert again.exit_code == 2
    assert "already exists\n  remove it, or pass another --out" in again.output


def test_harbor_import_skips_invalid_folders(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = ab("import", "harbor", tmp_path / "empty", harbor(tmp_path), "--suite-dir", tmp_path / "tasks/theirs")
    assert done.exit_code == 2
    assert load_task(tmp_path / "tasks/theirs/their-task").id == "their-task"
    assert f"rejected {tmp_path / 'empty'}: " in done.output
    assert "1 task created, 1 rejected" in done.output


def test_swebench_import_reports_remedies_and_writes_relative_urls(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tmp_path / "rows.jsonl"
    assert ab("export", "swebench", suite / "good", "--out", rows).exit_code == 0
    row = json.loads(rows.read_text())
    rows.write_text(json.dumps(row) + "\n" + json.dumps({**row, "instance_id": "two", "repo": "local/gone"}) + "\n")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    done = ab("import", "swebench", rows, "--suite-dir", "tasks/back", "--repos", "..")
    assert done.exit_code == 2
    assert "1 task created, 1 row rejected" in done.output
    assert "\n  git clone it to ../local__gone" in done.output
    assert "url: ../../../../calc\n" in (tmp_path / "work/tasks/back/good/task.yaml").read_text()
    done = ab("import", "swebench", rows, "--suite-dir", "tasks/json", "--repos", "..", "--json")
    assert json.loads(done.stdout)["refused"][0]["remedy"] == "git clone it to ../local__gone"


class TestImportRemedies:
    """Remedies of an import name rows, folders and its own options, because its user has no task file."""

    @pytest.fixture
    def rows(self, suite: Path, tmp_path: Path) -> Path:
        assert ab("export", "swebench", suite / "good", "--out", tmp_path / "rows.jsonl").exit_code == 0
        return tmp_path / "rows.jsonl"

    def rejection(self, rows: Path, *options: object, **changed: str) -> str:
        rows.write_text(json.dumps({**json.loads(rows.read_text()), **changed}))
        done = ab("import", "swebench", rows, "--suite-dir", rows.parent / "tasks/back", *options, "--json")
        (row,) = json.loads(done.stdout)["refused"]
        assert f"  {row['remedy']}\n" in done.stderr
        assert "repo." not in row["remedy"]
        assert "--id" not in row["remedy"]
        return str(row["remedy"])

    def test_commit_missing_in_the_clone(self, rows: Path, tmp_path: Path) -> None:
        remedy = self.rejection(rows, "--repos", tmp_path, base_commit="1" * 40)
        assert remedy == "check `base_commit` of the row; a clone of --repos may need `git fetch`"

    def test_unreachable_repository(self, rows: Path, tmp_path: Path) -> None:
        remedy = self.rejection(rows, "--url", f"file://{tmp_path}/gone/{{repo}}")
        assert remedy.startswith("check `repo` of the row and --url (or have clones and give --repos), the network")

    def test_shallow_clone(self, rows: Path, repo: Path, tmp_path: Path) -> None:
        (tmp_path / "clones").mkdir()
        git(tmp_path, "clone", "-q", "--depth=1", repo.as_uri(), "clones/calc")
        assert self.rejection(rows, "--repos", tmp_path / "clones").endswith("or import without --repos")

    def test_existing_task_folder(self, rows: Path, tmp_path: Path) -> None:
        (tmp_path / "tasks/back/good").mkdir(parents=True)
        assert self.rejection(rows, "--repos", tmp_path) == "remove it, or pass another --suite-dir"

    def test_invalid_instance_id(self, rows: Path, tmp_path: Path) -> None:
        rows.write_text(json.dumps({**json.loads(rows.read_text()), "instance_id": "-x"}))
        done = ab("import", "swebench", rows, "--suite-dir", tmp_path / "tasks/back", "--repos", tmp_path)
        assert f"rejected {rows}[0]: instance_id: expected letters" in done.output

    def test_harbor_folder_with_existing_target_or_invalid_name(self, tmp_path: Path) -> None:
        folder = harbor(tmp_path)
        (tmp_path / "tasks/theirs" / folder.name).mkdir(parents=True)
        done = ab("import", "harbor", folder, "--suite-dir", tmp_path / "tasks/theirs")
        assert f"already exists\n  remove it, pass another --suite-dir, or rename {folder}" in done.output
        odd = folder.rename(folder.with_name("-x"))
        done = ab("import", "harbor", "--suite-dir", tmp_path / "tasks/theirs", odd)
        assert f"name of {odd}: expected letters" in done.output


@pytest.mark.parametrize(
    "text, only, message",
    [("", (), "has no row"), ('{"instance_id": "a"}\n', ("--only", "b"), "has no row called b")],
)
def test_file_without_the_requested_rows(tmp_path: Path, text: str, only: tuple[str, ...], message: str) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(text)
    done = ab("import", "swebench", rows, "--suite-dir", tmp_path / "tasks/back", *only)
    assert isinstance(done.exception, InputError)
    assert done.exception.message == f"{rows} {message}"
