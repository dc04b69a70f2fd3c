"""Changes outside the editable scope are reverted and reported, or a violation, as the contract says."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import pytest

from agentbench.contract.schema import DEFAULT_GENERATED, Task
from agentbench.core.errors import PatchInvalid
from agentbench.tools.program_run import AgentProgram
from agentbench.tools.rules import Rules, rules_for
from agentbench.trace.events import Intervention, MonitorAlert, WorkspaceMutated
from agentbench.tree.memory import MemoryTree
from tests.tools.project_sandboxes import FILES, ProjectSandboxes
from tests.tools.recorded_session import FolderSandbox, completed, fill, record_session

pytestmark = [pytest.mark.req("T-02"), pytest.mark.component]

REVERT = Rules(editable_globs=("src/**",), revert_outside=True, generated=DEFAULT_GENERATED)
TASK = {"id": "t", "suite": "s", "repo": "none"}
VANDAL = (
    "echo more >> docs/readme.md; echo new > top.txt; rm -r tests; ln -s /etc/passwd tests; chmod +x docs/readme.md; "
    "mkdir -p deep/er; echo x > deep/er/x; echo fine >> src/util.py; mkdir src/__pycache__; echo c > src/__pycache__/a.pyc"
)


@pytest.mark.req("E-05a", "E-07a")
def test_out_of_scope_change_is_reverted_and_logged(any_sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    with any_sandboxes.open(tmp_path, REVERT) as recorded:
        done = recorded.session.run(VANDAL)
        assert done.ok, done
        assert done.changed_files == ("src/util.py",)
        assert done.note == (
            "changed files outside the editable scope (src/**): deep/er/x, docs/readme.md, tests, tests/test_calc.py, top.txt; "
            "reverted"
        )
        listed = recorded.session.list_files().stdout.splitlines()
        assert [name for name in listed if not name.endswith(".pyc")] == sorted(FILES)
        result = recorded.session.run(
            "cat docs/readme.md tests/test_calc.py; stat -c %a docs/readme.md; ls -d deep top.txt"
        )
        assert result.stdout == FILES["docs/readme.md"] + FILES["tests/test_calc.py"] + "644\n"
        assert result.changed_files == ()
        events = recorded.events()
    done_first, put_back = recorded.of(WorkspaceMutated)
    assert {file.path: file.change for file in put_back.files} == {
        "deep/er/x": "deleted",
        "docs/readme.md": "modified",
        "tests": "deleted",
        "tests/test_calc.py": "added",
        "top.txt": "deleted",
    }
    before = {file.path: file.before_sha256 for file in done_first.files}
    assert all(file.after_sha256 == before[file.path] for file in put_back.files)
    (rollback,) = recorded.of(Intervention)
    alert = events[rollback.alert - 1].payload
    assert isinstance(alert, MonitorAlert)
    assert (rollback.action, alert.monitor, alert.rule) == ("rollback", "scope", "editable_globs")


@pytest.mark.req("E-05a")
def test_out_of_scope_change_of_a_program_is_reverted(any_sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    with any_sandboxes.open(tmp_path, REVERT) as recorded:
        done = recorded.session.run_program(AgentProgram("agent_command", "rm -r docs src; echo > docs; exit 3"))
        assert done.exit_code == 3
        assert done.changed_files == ("src/calc.py", "src/util.py")
        assert recorded.session.list_files().stdout == "docs/readme.md\ntests/test_calc.py\n"


def test_read_only_contract_reverts_every_change(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    with sandboxes.open(tmp_path, Rules(allow_write=False, revert_outside=True)) as recorded:
        assert "reverted" in recorded.session.run("rm -r src docs; echo x > y").note
        assert recorded.session.list_files().stdout.splitlines() == sorted(FILES)


def test_violation_mode_keeps_and_reports_the_change(any_sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    with any_sandboxes.open(tmp_path, Rules(editable_globs=("src/**",))) as recorded:
        done = recorded.session.run("echo x > top.txt")
        assert done.note == "changed files outside the editable scope (src/**): top.txt"
        assert done.changed_files == ("top.txt",)
        assert recorded.session.read_file("top.txt").stdout == "x\n"
    assert recorded.of(Intervention) == []
    assert [(alert.rule, alert.severity) for alert in recorded.of(MonitorAlert)] == [("editable_globs", "note")]


def test_failed_revert_is_reported(
    folder_sandbox: FolderSandbox, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(workspace, {"docs/a": "found\n"})

    def vandal(_command: object) -> object:
        (workspace / "docs/a").write_text("other\n")
        return completed()

    monkeypatch.setattr(folder_sandbox, "on_run", vandal)
    for number, base in enumerate((MemoryTree(), MemoryTree({b"docs/a": b"found\n"}))):
        fill(workspace, {"docs/a": "found\n"})
        record = tmp_path / str(number)
        record.mkdir()

        def full(_files: object) -> None:
            raise PatchInvalid("no space left")

        monkeypatch.setattr(folder_sandbox, "write_files", full)
        with contextmanager(record_session)(folder_sandbox, record, REVERT, base=base) as recorded:
            done = recorded.session.run("anything")
        assert ("no space left", "not available")[number == 0] in done.note
        assert done.changed_files == ("docs/a",)
        assert [alert.rule for alert in recorded.of(MonitorAlert)] == ["editable_globs", "not_reverted"]
        assert recorded.of(Intervention) == []


@pytest.mark.req("C-08a")
@pytest.mark.parametrize("said, reverts", [(None, False), ("violation", False), ("revert", True)])
def test_contract_selects_revert_or_violation(said: str | None, reverts: bool) -> None:
    policy = {"editable_globs": ["src/**"]} | ({"outside_editable": said} if said else {})
    assert rules_for(Task.model_validate({**TASK, "policy": policy})).revert_outside is reverts
