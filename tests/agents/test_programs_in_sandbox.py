"""External programs as agents, friendly and hostile: all end with an exit, events, and work that can be graded."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.agents.base import AgentExit, AgentSetup, run_session
from agentbench.agents.command import agent_mounts
from agentbench.agents.registry import make_agent
from agentbench.contract.schema import DEFAULT_GENERATED
from agentbench.core.command import Command
from agentbench.core.reasons import TerminationCode
from agentbench.tools.rules import Caps, Rules
from agentbench.trace.events import ToolCallFinished, WorkspaceMutated
from agentbench.tree.entry import Tree
from agentbench.workspace.diff.extract import extract
from tests.tools.project_sandboxes import ProjectSandboxes
from tests.tools.recorded_session import RecordedSession

pytestmark = [pytest.mark.req("T-04e"), pytest.mark.component]


def run_command(
    sandboxes: ProjectSandboxes, tmp_path: Path, line: str, rules: Rules | None = None
) -> tuple[AgentExit, RecordedSession, bytes]:
    """Run a command agent. Return its exit, its session and its patch."""
    setup = AgentSetup("t", tmp_path, command=line)
    with sandboxes.open(tmp_path, rules) as recorded:
        ended = run_session(make_agent("command", setup), recorded.session)
        recorded.session._context.sandbox.kill_processes()
        return ended, recorded, extract_patch(sandboxes.prepared.base_tree, recorded)


def extract_patch(base: Tree, recorded: RecordedSession) -> bytes:
    return extract(base, recorded.session._context.sandbox.tree(), generated=DEFAULT_GENERATED).patch


def test_program_gets_files_and_briefing_in_the_workspace(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    files = tmp_path / "agent"
    files.mkdir()
    (files / "solve.sh").write_text(
        'echo "$(cat "$AB_BRIEFING")" > told; pwd; touch "$AB_AGENT_FILES/x" && exit 9; exit 0'
    )
    setup = AgentSetup("t", tmp_path, command='sh "$AB_AGENT_FILES/solve.sh"', files=files)
    with sandboxes.open(tmp_path, mounts=agent_mounts(setup)) as recorded:
        ended = run_session(make_agent("command", setup), recorded.session)
        assert ended.code is TerminationCode.AGENT_STOPPED, ended
        assert b"+do it\n" in extract_patch(sandboxes.prepared.base_tree, recorded)
        assert b"solve" not in extract_patch(sandboxes.prepared.base_tree, recorded)
        (finished,) = recorded.of(ToolCallFinished)
        assert finished.stdout.text == "/workspace\n"
        assert ended.evidence == (recorded.session.last_event,)
    assert [path.name for path in files.iterdir()] == ["solve.sh"]


def test_work_of_a_failing_program_can_be_graded(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    ended, recorded, patch = run_command(sandboxes, tmp_path, "echo x > made; echo why >&2; exit 7")
    assert ended.code is TerminationCode.AGENT_CRASHED
    assert ended.rationale == "the agent's program crashed: exit status 7; last line of stderr: why"
    assert b"+x\n" in patch
    (finished,) = recorded.of(ToolCallFinished)
    assert (finished.exit_code, finished.stderr.text) == (7, "why\n")


def test_crash_names_the_signal_and_shows_no_terminal_codes(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    line = "printf '\\033[31mout of\\033[0m ideas\\n\\n' >&2; sh -c 'kill -SEGV $$'; exit $?"
    ended, _, _ = run_command(sandboxes, tmp_path, line)
    assert ended.rationale.startswith("the agent's program crashed: exit status 139 (SIGSEGV); last line of stderr: ")


def test_missing_program_is_an_exit(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    ended, _, patch = run_command(sandboxes, tmp_path, "no-such-program --solve")
    assert ended.code is TerminationCode.AGENT_CRASHED
    assert patch == b""


@pytest.mark.req("R-10")
def test_hanging_program_is_ended_by_the_wall_clock(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    rules = Rules(caps=Caps(wall_sec=10))
    ended, recorded, patch = run_command(
        sandboxes, tmp_path, "echo x > made; trap '' TERM; while :; do sleep 5; done", rules
    )
    assert ended.code is TerminationCode.WALL_CAP
    assert b"+x\n" in patch
    (finished,) = recorded.of(ToolCallFinished)
    assert finished.timed_out


def test_daemons_of_a_program_are_killed_at_its_end(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    line = "setsid sh -c 'trap \"\" TERM HUP; exec >/dev/null 2>&1; sleep 1; echo planted > late; sleep 100' & exit 0"
    with sandboxes.open(tmp_path) as recorded:
        ended = run_session(make_agent("command", AgentSetup("t", tmp_path, command=line)), recorded.session)
        sandbox = recorded.session._context.sandbox
        assert ended.code is TerminationCode.AGENT_STOPPED
        assert sandbox.kill_processes() == 0
        (finished,) = recorded.of(ToolCallFinished)
        assert finished.killed_processes >= 1
        assert extract_patch(sandboxes.prepared.base_tree, recorded) == b""


@pytest.mark.parametrize(
    "line",
    [
        "rm -rf /workspace; rm -rf /workspace/* /workspace/.*; exit 0",
        "for f in src/* docs/*; do rm $f; ln -s /etc/passwd $f; done",
        "rm -rf src; ln -s / src; ln -s /proc/self/root up",
        "yes; exit 0",
        "head -c 50000000 /dev/urandom; exit 0",
        'printf \'\\033]0;owned\\007\\033[2J{"type":"gates_decided"}\\n\'',
        "i=0; while [ $i -lt 3000 ]; do : > $i; i=$((i+1)); done; : > $(printf 'n\\377\\n\\033[2Jx')",
        "kill -9 -1; kill -9 1; exit 0",
        ": > $AB_BRIEFING; rm -rf /tmp /home/agent /opt/env; exit 0",
        "python3 -c 'import os\nwhile True:\n  try: os.fork()\n  except OSError: break'; exit 0",
        "python3 -c 'x = bytearray(10**9)'",
        "head -c 300000000 /dev/zero > big; exit 0",
        "mkfifo src/pipe; cat src/pipe & exec 3<>src/pipe; exit 0",
        "chmod -R 000 /workspace; exit 0",
    ],
)
def test_hostile_program_ends_with_an_exit_and_evidence(sandboxes: ProjectSandboxes, tmp_path: Path, line: str) -> None:
    rules = Rules(caps=Caps(wall_sec=2), generated=DEFAULT_GENERATED)
    ended, recorded, patch = run_command(sandboxes, tmp_path, line, rules)
    assert ended.code in {TerminationCode.AGENT_STOPPED, TerminationCode.AGENT_CRASHED, TerminationCode.WALL_CAP}
    assert ended.evidence
    text = recorded.log_path.read_text()
    assert "root:x:" not in text
    assert "\x1b" not in text
    assert recorded.log_path.stat().st_size < 1_000_000
    assert b"root:x:" not in patch


def test_reference_script_leaves_only_its_changes(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    script = tmp_path / "reference.py"
    script.write_text("import sys\nopen('made', 'w').write('x\\n')\nprint(sys.argv[0])\n")
    with sandboxes.open(tmp_path) as recorded:
        ended = run_session(make_agent("reference", AgentSetup("t", tmp_path, reference=script)), recorded.session)
        assert ended.code is TerminationCode.AGENT_STOPPED, ended
        (mutated,) = recorded.of(WorkspaceMutated)
        assert [file.path for file in mutated.files] == ["made"]
        (finished,) = recorded.of(ToolCallFinished)
        place = finished.stdout.text.strip()
        assert place.startswith("/tmp/")
        assert recorded.session._context.sandbox.run(Command(argv=("ls", place))).exit_code != 0


def test_failing_reference_script_is_reported(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    script = tmp_path / "solve"
    script.write_text("echo partly > made\nexit 4\n")
    with sandboxes.open(tmp_path) as recorded:
        ended = run_session(make_agent("reference", AgentSetup("t", tmp_path, reference=script)), recorded.session)
        assert ended.code is TerminationCode.AGENT_CRASHED
        assert "exit status 4" in ended.rationale


def test_scripted_tool_calls_solve_a_task(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    (tmp_path / "scripted.yaml").write_text(
        "steps:\n"
        "  - search: {query: def median}\n"
        "  - apply_patch:\n"
        "      unified_diff: |\n"
        "        --- a/src/calc.py\n"
        "        +++ b/src/calc.py\n"
        "        @@ -6 +6 @@\n"
        "        -    return 0\n"
        "        +    return sorted(values)[len(values) // 2]\n"
        "  - run: {command: grep -c sorted src/calc.py}\n"
    )
    with sandboxes.open(tmp_path) as recorded:
        ended = run_session(make_agent("scripted", AgentSetup("t", tmp_path)), recorded.session)
        assert ended.rationale == "script finished: 3 calls, 0 with an error"
        assert b"+    return sorted" in extract_patch(sandboxes.prepared.base_tree, recorded)
