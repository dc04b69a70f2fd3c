"""Exporting tasks to Harbor, importing them, and what cannot be converted."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from agentbench.authoring.formats.harbor import REWARD, export_task, import_folder
from agentbench.contract.load import load_task
from agentbench.core.errors import InputError
from agentbench.execution.lab import Lab

pytestmark = [pytest.mark.req("C-18"), pytest.mark.component]

TASK = """
id: t
suite: s
statement: Make it so.
repo: {path: repo}
setup: {commands: ["pip install pytest"]}
oracle:
  hidden: hidden/
  checks:
    - id: unit
      command: "python -m pytest -q tests"
      parser: pytest
      fail_to_pass: ["tests/test_a.py::T::test_x[a b::[c]]"]
reference: fix.patch
"""


def task(tmp_path: Path, text: str = TASK) -> Path:
    folder = tmp_path / "s/t"
    for name, content in {
        "task.yaml": text,
        "repo/a.py": "x = 1\n",
        "hidden/tests/test_a.py": "pass\n",
        "fix.patch": "p\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def test_export_writes_a_harbor_folder(tmp_path: Path, lab: Lab) -> None:
    created = export_task(load_task(task(tmp_path)), tmp_path / "out", lab)
    assert tomllib.loads((created / "task.toml").read_text())["agent"]["timeout_sec"] == 1800.0
    assert (created / "instruction.md").read_text() == "Make it so."
    assert (created / "environment/repo/a.py").read_text() == "x = 1\n"
    assert (created / "tests/hidden/tests/test_a.py").exists()
    assert json.loads((created / "tests/unit.json").read_text()) == ["tests/test_a.py::T::test_x[a b::[c]]"]
    assert "git apply" in (created / "solution/solve.sh").read_text()
    assert not (created / "environment/fix.patch").exists()
    for script in ("tests/test.sh", "solution/solve.sh"):
        subprocess.run(["bash", "-n", created / script], check=True)


def test_judge_compares_test_ids_exactly(tmp_path: Path, lab: Lab) -> None:
    created = export_task(load_task(task(tmp_path)), tmp_path / "out", lab)
    report = tmp_path / "r.xml"

    def judged(inside: str) -> int:
        report.write_text(
            f'<testsuite><testcase classname="tests.test_a.T" name="test_x[a b::[c]]">{inside}</testcase></testsuite>'
        )
        argv = [sys.executable, str(created / "tests/judge.py"), str(report), str(created / "tests/unit.json")]
        return subprocess.run(argv, check=False, capture_output=True).returncode

    assert [judged(""), judged("<failure/>"), judged("<skipped/>")] == [0, 1, 1]


def test_exported_task_is_restored_on_import(tmp_path: Path, lab: Lab) -> None:
    before = load_task(task(tmp_path))
    after = load_task(import_folder(export_task(before, tmp_path / "out", lab), tmp_path / "back/s"))
    assert after.checks == before.checks
    assert after.checks[0].fail_to_pass == ("tests/test_a.py::T::test_x[a b::[c]]",)
    assert after.hidden_files() == before.hidden_files()
    assert (after.statement, after.task.setup) == (before.statement, before.task.setup)
    assert (after.folder / "repo/a.py").read_text() == "x = 1\n"
    assert after.reference_file is not None
    assert after.reference_file.read_bytes() == b"p\n"


def test_invalid_exported_contract_is_rejected(tmp_path: Path, lab: Lab) -> None:
    out = export_task(load_task(task(tmp_path)), tmp_path / "out", lab)
    (out / "tests/agentbench.json").write_text('{"oracle": 3}')
    with pytest.raises(InputError, match=r"agentbench\.json: invalid task"):
        import_folder(out, tmp_path / "back/s")
    assert not (tmp_path / "back/s/t").exists()


def harbor(tmp_path: Path) -> Path:
    folder = tmp_path / "their-task"
    files = {
        "task.toml": "version = '1.0'\n[verifier]\ntimeout_sec = 90.0\n[environment]\ncpus = 1\nmemory_mb = 512\n",
        "instruction.md": "Write hello.\n",
        "environment/Dockerfile": "FROM python:3.11-slim\nWORKDIR /app\nCOPY data.txt .\n",
        "environment/data.txt": "data\n",
        "tests/test.sh": "echo 1 > /logs/verifier/reward.txt\n",
        "solution/solve.sh": "echo hello > hello.txt\n",
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def test_foreign_folder_is_imported(tmp_path: Path) -> None:
    loaded = load_task(import_folder(harbor(tmp_path), tmp_path / "tasks/theirs"))
    assert (loaded.id, loaded.task.suite, loaded.statement) == ("their-task", "theirs", "Write hello.\n")
    assert (loaded.task.environment.workdir, loaded.task.environment.mem_limit_mb) == ("/app", 512)
    assert loaded.checks[0].timeout_sec == 90
    assert list(loaded.hidden_files()) == [b".harbor-tests/test.sh"]
    assert loaded.reference_file is not None


def test_sizes_with_units_are_read(tmp_path: Path) -> None:
    folder = harbor(tmp_path)
    (folder / "task.toml").write_text("[environment]\nmemory = '2G'\nstorage = '512M'\n")
    environment = load_task(import_folder(folder, tmp_path / "tasks/theirs")).task.environment
    assert (environment.mem_limit_mb, environment.disk_limit_mb) == (2048, 512)


@pytest.mark.parametrize("reward, passes", [("1", True), ("1.0", True), ("0", False), ("0.5", False), ("10", False)])
def test_only_a_full_reward_passes(tmp_path: Path, reward: str, passes: bool) -> None:
    command = load_task(import_folder(harbor(tmp_path), tmp_path / "tasks/theirs")).checks[0].command or ""
    (tmp_path / "reward").write_text(f"{reward}\n")
    judging = command.rpartition("; case")[2].replace(REWARD, str(tmp_path / "reward"))
    assert (subprocess.run(["sh", "-c", f"case{judging}"], check=False).returncode == 0) is passes


class TestRejected:
    @pytest.mark.parametrize(
        "settings", ["[verifier]\nenv = {KEY = 'x'}", "[environment]\ngpus = 1", "[[steps]]\nname = 'one'"]
    )
    def test_unsupported_settings(self, tmp_path: Path, settings: str) -> None:
        folder = harbor(tmp_path)
        (folder / "task.toml").write_text(settings)
        with pytest.raises(InputError, match="tasks do not support"):
            import_folder(folder, tmp_path / "tasks/theirs")

    def test_probes_cannot_be_exported(self, tmp_path: Path, lab: Lab) -> None:
        text = TASK + "\n"
        text = text.replace(
            "    - id: unit", "    - {id: p, kind: probe, candidate: cat, driver: fix.patch}\n    - id: unit"
        )
        with pytest.raises(InputError, match="probe"):
            export_task(load_task(task(tmp_path, text)), tmp_path / "out", lab)

    @pytest.mark.parametrize("name", ["task.toml", "instruction.md", "environment/Dockerfile", "tests/test.sh"])
    def test_missing_file(self, tmp_path: Path, name: str) -> None:
        folder = harbor(tmp_path)
        (folder / name).unlink()
        with pytest.raises(InputError, match=name.rpartition("/")[2]):
            import_folder(folder, tmp_path / "tasks/theirs")

    def test_compose_file(self, tmp_path: Path) -> None:
        folder = harbor(tmp_path)
        (folder / "environment/docker-compose.yaml").write_text("")
        with pytest.raises(InputError, match="compose"):
            import_folder(folder, tmp_path / "tasks/theirs")
