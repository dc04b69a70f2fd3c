"""The tools in a real sandbox: commands, searches and patches."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from agentbench.contract.schema import DEFAULT_GENERATED
from agentbench.core.reasons import TerminationCode
from agentbench.tools.rules import Caps, Rules
from agentbench.tools.session_limits import SessionEnded
from agentbench.trace.events import MonitorAlert, ToolCallFinished, WorkspaceMutated
from tests.tools.project_sandboxes import ProjectSandboxes

pytestmark = pytest.mark.component


@pytest.mark.req("T-01", "E-04")
def test_command_runs_in_workspace_with_its_environment(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    with sandboxes.open(tmp_path) as recorded:
        result = recorded.session.run("pwd; echo $A; echo oops >&2; exit 3", env={"A": "b c"})
        assert (result.stdout, result.stderr, result.exit_code) == ("/workspace\nb c\n", "oops\n", 3)
        (finished,) = recorded.of(ToolCallFinished)
        assert finished.stdout.sha256 == hashlib.sha256(b"/workspace\nb c\n").hexdigest()
        assert finished.duration_us > 0


@pytest.mark.req("T-01", "E-05a")
def test_all_tools_see_the_same_files(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    with sandboxes.open(tmp_path, Rules(generated=DEFAULT_GENERATED)) as recorded:
        session = recorded.session
        assert "src/calc.py" in session.list_files().stdout
        patch = (
            "--- a/src/calc.py\n+++ b/src/calc.py\n@@ -4,3 +4,3 @@\n \n def median(values):\n-    return 0\n"
            "+    return sorted(values)[len(values) // 2]\n"
            "--- /dev/null\n+++ b/new/deep/x.sh\n@@ -0,0 +1 @@\n+echo hi\n"
        )
        assert session.apply_patch(patch).changed_files == ("new/deep/x.sh", "src/calc.py")
        ran = session.run(
            "python3 -c 'import sys; sys.path.insert(0, \"src\"); import calc; print(calc.median([3,1,2]))'"
        )
        assert ran.stdout == "2\n"
        assert session.run("sh new/deep/x.sh").stdout == "hi\n"
        assert session.run("echo more >> new/deep/x.sh; rm docs/readme.md; chmod +x src/util.py").changed_files == (
            "docs/readme.md",
            "new/deep/x.sh",
            "src/util.py",
        )
        assert session.read_file("new/deep/x.sh").stdout == "echo hi\nmore\n"
        logged = [
            {file.path: file.change for file in mutated.files if not file.generated}
            for mutated in recorded.of(WorkspaceMutated)
        ]
        assert logged[-1] == {"docs/readme.md": "deleted", "new/deep/x.sh": "modified", "src/util.py": "mode"}


@pytest.mark.req("T-01")
@pytest.mark.parametrize("ripgrep", [True, False], ids=["ripgrep", "python"])
def test_search_works_the_same_without_ripgrep(
    sandboxes: ProjectSandboxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ripgrep: bool
) -> None:
    if not ripgrep:
        monkeypatch.setattr("agentbench.tools.search.RIPGREP", "no-such-program")
    with sandboxes.open(tmp_path) as recorded:
        session = recorded.session
        make = (
            "printf 'a median\\0b\\n' > binary; ln -s src/calc.py link; mkfifo fifo; printf 'median' > .hidden; "
            "printf 'd\\351f median\\r\\n' > $(printf 'caf\\351\\nx'); mkdir a; printf 'median:1:x\\n' > a/-e; "
            "yes 'long median' | head -c 5000 | tr '\\n' ' ' > long; echo 'median' > .gitignore; echo 'foo(bar' > paren"
        )
        assert session.run(make).ok
        result = session.search(r"med[i]an\b")
        assert result.ok, result
        lines = result.stdout.splitlines()
        assert lines[:5] == [
            ".gitignore:1:median",
            ".hidden:1:median",
            "a/-e:1:median:1:x",
            "caf%E9%0Ax:1:d�f median",
            "docs/readme.md:1:mean and median",
        ]
        assert lines[5].startswith("long:1:long median long")
        assert len(lines[5]) < 500
        assert lines[6:] == ["src/calc.py:5:def median(values):"]
        assert session.search("median", "*.py").stdout == "src/calc.py:5:def median(values):\n"
        assert session.search("median", "docs").stdout == "docs/readme.md:1:mean and median\n"
        few = session.search("median", max_results=2)
        assert (few.stdout.count("\n"), few.truncated) == (2, True)
        assert "showing the first 2" in few.note
        assert session.search("no such thing").stdout == ""
        literal = session.search("foo(bar")
        assert literal.stdout == "paren:1:foo(bar\n"
        assert "plain text" in literal.note


@pytest.mark.req("T-01")
def test_many_files_are_searched(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    with sandboxes.open(tmp_path) as recorded:
        name = "n" * 100
        assert recorded.session.run(f"for i in $(seq 1000 1999); do echo needle $i > {name}$i; done").ok
        result = recorded.session.search("needle 1[0-9]*7$", max_results=1000)
        assert result.stdout.splitlines() == [f"{name}{i}:1:needle {i}" for i in range(1007, 2000, 10)]


@pytest.mark.parametrize("ripgrep", [True, False], ids=["ripgrep", "python"])
def test_endless_search_meets_the_time_limit(
    sandboxes: ProjectSandboxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ripgrep: bool
) -> None:
    if not ripgrep:
        monkeypatch.setattr("agentbench.tools.search.RIPGREP", "no-such-program")
    with sandboxes.open(tmp_path, Rules(caps=Caps(tool_timeout_sec=3))) as recorded:
        assert recorded.session.run("printf 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab' > slow").ok
        result = recorded.session.search("(a+)+$")
        assert result.ok or result.error_type == "timeout"
        assert recorded.session.run("true").ok


@pytest.mark.req("T-02", "R-16")
def test_large_output_is_bounded_and_digested(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    with sandboxes.open(tmp_path) as recorded:
        result = recorded.session.run("head -c 30000000 /dev/zero | tr '\\0' x; yes | head -n 300000 >&2")
        assert result.ok
        assert len(result.stdout) < 70_000
        assert len(result.stderr) < 70_000
        assert result.truncated
        (finished,) = recorded.of(ToolCallFinished)
        assert finished.stdout.total_bytes == 30_000_000
        assert finished.stdout.sha256 == hashlib.sha256(b"x" * 30_000_000).hexdigest()
        assert recorded.log_path.stat().st_size < 100_000


def test_hanging_command_is_killed_with_its_children(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    with sandboxes.open(tmp_path, Rules(caps=Caps(tool_timeout_sec=3))) as recorded:
        result = recorded.session.run("trap '' TERM; setsid sleep 1000 & sleep 1000")
        assert result.error_type == "timeout"
        assert result.timed_out
        assert recorded.session.run("! pgrep sleep").ok


@pytest.mark.req("R-10")
def test_wall_clock_ends_command_and_session(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    with sandboxes.open(tmp_path, Rules(caps=Caps(wall_sec=10))) as recorded:
        with pytest.raises(SessionEnded) as caught:
            recorded.session.run("echo begun > mark; sleep 1000")
        assert caught.value.code is TerminationCode.WALL_CAP
        (mutated,) = recorded.of(WorkspaceMutated)
        assert [file.path for file in mutated.files] == ["mark"]


@pytest.mark.req("T-02")
@pytest.mark.parametrize(
    "attack",
    [
        "rm -rf /workspace/* /workspace/.[!.]*; true",
        "rm -rf src && ln -s /etc src",
        "rm src/calc.py && ln -s /etc/passwd src/calc.py",
        "rm src/calc.py && mkfifo src/calc.py",
        "chmod 000 src src/calc.py docs; true",
        "ln -s loop loop; ln -s . dot; mkdir -p a/a/a; ln -s ../.. a/a/up",
        "python3 -c \"import os\nfor i in range(600): os.mkdir('d'); os.chdir('d')\nopen('f','w')\"",
        "for i in 1 2 3; do mkdir -p $(printf 'x%.0s' $(seq 250))/$i; done; touch $(printf '\\377\\376')",
        "git init -q nested 2>/dev/null; mkdir -p sub/.git; echo x > sub/.git/config; echo x > .git/evil",
        "head -c 100000000 /dev/zero > fill; true",
        "truncate -s 1T sparse",
        "rmdir /workspace; mv /workspace /w; true",
    ],
)
def test_hostile_tree_never_raises(sandboxes: ProjectSandboxes, tmp_path: Path, attack: str) -> None:
    with sandboxes.open(tmp_path) as recorded:
        session = recorded.session
        session.run(attack)
        session.list_files()
        read = session.read_file("src/calc.py")
        assert "root:" not in read.stdout
        session.search("median")
        session.apply_patch(
            "--- a/src/calc.py\n+++ b/src/calc.py\n@@ -1 +1 @@\n-def mean(values):\n+def middle(values):\n"
        )
        assert session.run("echo still here").stdout == "still here\n"
        assert "root:" not in recorded.log_path.read_text()


@pytest.mark.slow
@pytest.mark.req("E-05a")
def test_very_many_changed_files_are_counted(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    with sandboxes.open(tmp_path, Rules(caps=Caps(tool_timeout_sec=100))) as recorded:
        make = "import os\nos.mkdir('many')\nfor i in range(20_000): os.close(os.open(f'many/{i}', os.O_CREAT))"
        result = recorded.session.run(f'python3 -c "{make}"')
        assert result.ok, result
        (mutated,) = recorded.of(WorkspaceMutated)
        assert len(mutated.files) + mutated.omitted == 20_000
        assert len(result.changed_files) == 200
        listed = recorded.session.list_files("many")
        assert listed.stdout.count("\n") == 2000
        assert recorded.log_path.stat().st_size < 1_000_000


@pytest.mark.req("T-02")
def test_command_changes_out_of_scope_are_reported(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    rules = Rules(editable_globs=("src/**",), generated=DEFAULT_GENERATED)
    with sandboxes.open(tmp_path, rules) as recorded:
        result = recorded.session.run("echo x >> src/calc.py; echo x >> tests/test_calc.py; mkdir build; touch build/x")
        assert result.ok
        assert "tests/test_calc.py" in result.note
        (alert,) = recorded.of(MonitorAlert)
        assert "tests/test_calc.py" in alert.detail
        assert "build" not in alert.detail
