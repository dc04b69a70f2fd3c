"""Files of an attempt that people read: patches per step, the conversation, the kept workspace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentbench.execution.attempt import kept_workspace
from agentbench.record.attempt_folder import AttemptFolder
from agentbench.trace.log import read_events
from agentbench.tree.folder import FolderTree
from agentbench.tree.memory import MemoryTree
from agentbench.workspace.diff.apply import plan_writes
from agentbench.workspace.diff.extract import extract
from agentbench.workspace.diff.parse import parse
from tests.execution.conftest import Ab, Ran
from tests.execution.tasks import PATCH, make_task
from tests.execution.test_models import ASK, SOLVED, calls, script, with_model

pytestmark = pytest.mark.end_to_end


@pytest.fixture
def task(tmp_path: Path) -> Path:
    return make_task(tmp_path / "task")


def attempt_folder(ran: Ran) -> Path:
    return Path(ran.json["run_dir"], ran.record["artifact_paths"]["task_dir"])


def replayed_patch(base: Path, steps: list[Path]) -> bytes:
    """Apply the steps in order to the base repository, and return the difference from it."""
    with FolderTree.at(base) as folder:
        found, tree = MemoryTree.copy(folder, max_bytes=10**6), MemoryTree.copy(folder, max_bytes=10**6)
    for step in steps:
        tree.apply(plan_writes(parse(step.read_bytes()), tree).writes)
    return extract(found, tree).patch


def conversation_lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "agent/conversation.jsonl").read_text().splitlines()]


@pytest.mark.req("E-09c", "E-05a")
def test_step_patches_of_tools_give_the_final_patch(ab: Ab, task: Path, tmp_path: Path) -> None:
    model = script(
        tmp_path,
        calls("apply_patch", unified_diff=PATCH.replace("+42", "+40")),
        calls("run", command="printf 'x = 1\n' > src/new.py && sed -i s/40/39/ answer.txt && chmod +x src/mod.py"),
        calls("apply_patch", unified_diff=PATCH.replace("-41", "-39")),
        calls("run", command="mv src/new.py src/moved.py"),
        {"text": "Done."},
    )
    ran = with_model(ab, task, model)
    assert ran.record["result"]["passed"], ran.stderr
    diffs = attempt_folder(ran) / "diffs"
    steps = sorted(diffs.glob("step_*.patch"))
    assert [step.name for step in steps] == [f"step_{number:04}.patch" for number in (1, 2, 3, 4)]
    assert replayed_patch(task / "repo", steps) == (diffs / "final.patch").read_bytes()
    assert ab("verify", ran.json["run_dir"]).code == 0


@pytest.mark.req("E-09c")
def test_step_patches_of_a_program_give_the_final_patch(ab: Ab, task: Path) -> None:
    ran = ab.by_command(task, "echo 42 > answer.txt; mkdir sub; echo new > sub/file; rm src/mod.py")
    diffs = attempt_folder(ran) / "diffs"
    steps = sorted(diffs.glob("step_*.patch"))
    assert steps
    assert replayed_patch(task / "repo", steps) == (diffs / "final.patch").read_bytes()


@pytest.mark.req("E-09b", "T-04b")
def test_conversation_of_an_own_agent_has_each_message_once(ab: Ab, task: Path, tmp_path: Path) -> None:
    ran = with_model(ab, task, script(tmp_path, *SOLVED))
    folder = attempt_folder(ran)
    lines = conversation_lines(folder)
    roles = ["system", "user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert [(line["index"], line["parent"], line["role"]) for line in lines] == [
        (index, index - 1 if index else None, role) for index, role in enumerate(roles)
    ]
    assert "answer.txt must say 42" in lines[1]["text"]
    assert lines[4]["tool_calls"][0]["name"] == "apply_patch"
    assert lines[4]["tool_calls"][0]["arguments"] == {"unified_diff": PATCH}
    assert lines[5]["tool_call_id"] == lines[4]["tool_calls"][0]["id"]
    types = {event.seq: event.type for event in read_events(folder / "events.jsonl")}
    assert {types[line["request"]] for line in lines} == {"llm_request"}
    assert [types.get(line["response"]) for line in lines if line["role"] == "assistant"] == ["llm_response"] * 3
    assert "agent/conversation.jsonl" in json.loads((folder / "meta/files.json").read_text())["files"]
    assert ab("verify", ran.json["run_dir"]).code == 0
    (folder / "agent/conversation.jsonl").write_text("{}\n")
    assert ab("verify", ran.json["run_dir"]).code == 1


@pytest.mark.req("E-09b", "T-04e", "T-05", "E-10a")
def test_conversation_of_a_program_is_redacted(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task", more="artifacts: {redact: [MY_TOKEN]}\n")
    program = tmp_path / "program"
    program.mkdir()
    (program / "ask.py").write_text(ASK)
    model = script(tmp_path, {"text": "42\n"})
    secret = 'tok"en-9f8e7d6c5b4a'
    line = f"python3 $AB_AGENT_FILES/ask.py '{secret} how much?'"
    arguments = ("--agent", "command", "--agent-files", program, "--agent-command", line, "--model", model)
    ran = ab("run-task", "--task", task, "--json", *arguments, env={"MY_TOKEN": secret})
    assert ran.record["result"]["passed"], ran.stderr
    asked, answered = conversation_lines(attempt_folder(ran))
    assert asked["text"].startswith("[redacted:MY_TOKEN:")
    assert asked["text"].endswith(" how much?")
    assert (answered["role"], answered["text"], answered["parent"]) == ("assistant", "42\n", 0)


HOSTILE = """
echo 42 > answer.txt
printf 'key = %s\\n' tok-9f8e7d6c5b4a > src/config.py
ln -s ../answer.txt src/inside; ln -s /etc/passwd outside; ln -s ../../../etc up
mkfifo pipe; chmod +x src/mod.py
mkdir -p .git/hooks sub/.git; echo evil > .git/hooks/post-checkout; echo evil > sub/.git/config
mkdir build; head -c 17000000 /dev/zero > build/large; echo x > tok-9f8e7d6c5b4a.txt
"""


@pytest.mark.req("E-09d", "E-10a", "E-11")
def test_kept_workspace_is_bounded_redacted_and_safe(ab: Ab, tmp_path: Path) -> None:
    more = "artifacts: {keep_workspace: true, redact: [MY_TOKEN]}\n"
    task = make_task(tmp_path / "task", more=more)
    environment = {"MY_TOKEN": "tok-9f8e7d6c5b4a"}
    arguments = ("--agent", "command", "--agent-command", HOSTILE)
    ran = ab("run-task", "--task", task, "--json", *arguments, env=environment)
    assert ran.record["result"]["passed"], ran.stderr
    folder, run = attempt_folder(ran), ran.json["run_dir"]
    kept = {path.relative_to(folder / "repo").as_posix() for path in (folder / "repo").rglob("*")}
    assert kept == {"answer.txt", "src", "src/mod.py", "src/config.py", "src/inside"}
    assert (folder / "repo/answer.txt").read_text() == "42\n"
    assert (folder / "repo/src/inside").readlink() == Path("../answer.txt")
    assert (folder / "repo/src/mod.py").stat().st_mode & 0o777 == 0o755
    assert (folder / "repo/src/config.py").read_text().startswith("key = [redacted:MY_TOKEN:")
    listed = json.loads((folder / "meta/workspace.json").read_text())
    assert listed["redacted"] == ["src/config.py"]
    reasons = {item["path"]: item["reason"] for item in listed["omitted"]}
    assert "absolute" in reasons["outside"]
    assert "outside the workspace" in reasons["up"]
    assert reasons["pipe"] == "neither a readable file nor a symlink"
    assert ".git" in reasons["sub/.git/config"]
    assert "larger than" in reasons["build/large"]
    assert any("name contains a secret" in reason for reason in reasons.values())
    texts = (file.read_bytes() for file in Path(run).rglob("*") if file.is_file() and not file.is_symlink())
    assert not any(b"tok-9f8e7d6c5b4a" in text for text in texts)
    assert ab("verify", run).code == 0

    (folder / "repo/.git").mkdir()
    planted = ab("verify", run)
    assert planted.code == 1
    assert "repo" in planted.stdout
    (folder / "repo/.git").rmdir()
    assert ab("retain", run, "--approved-by", "me", "--reason", "old").code == 0
    assert not (folder / "repo").exists()
    assert ab("verify", run).code == 0


@pytest.mark.req("E-09d")
def test_workspace_is_not_kept_unless_asked(ab: Ab, task: Path) -> None:
    folder = attempt_folder(ab.by_command(task, "echo 42 > answer.txt"))
    assert not (folder / "repo").exists()
    assert not (folder / "meta/workspace.json").exists()


def test_limits_of_the_copy_cut_generated_files_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_workspace, "MAX_FILES", 2)
    folder = AttemptFolder(tmp_path, "tasks/t", "01", "t", 1, 1)
    folder.make()
    tree = MemoryTree({b"a.pyc": b"1", b"b.py": b"2", b"c.py": b"3", b"d.py": b"4"})
    kept_workspace.keep_workspace(folder, tree, ["*.pyc"])
    assert sorted(path.name for path in (folder.path / "repo").iterdir()) == ["b.py", "c.py"]
    listed = json.loads((folder.path / "meta/workspace.json").read_text())
    assert [item["path"] for item in listed["omitted"]] == ["d.py", "a.pyc"]


DIALECTS = """\
import json, os, urllib.request
def ask(address, **body):
    headers = {"content-type": "application/json", "x-api-key": os.environ["ANTHROPIC_API_KEY"],
               "anthropic-version": "2023-06-01", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    body = json.dumps({"model": "x", "stream": True, **body}).encode()
    urllib.request.urlopen(urllib.request.Request(address, body, headers)).read()
anthropic, openai = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", os.environ["OPENAI_BASE_URL"]
tools = [{"name": "run", "description": "", "input_schema": {"type": "object", "properties": {}}}]
said = [{"role": "user", "content": "hello"}]
ask(anthropic, max_tokens=9, system="be good", tools=tools, messages=said)
said.append({"role": "assistant", "content": [{"type": "text", "text": "I see."},
    {"type": "tool_use", "id": "a", "name": "run", "input": {"command": "ls"}}]})
said.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "a file"}]})
ask(anthropic, max_tokens=9, system="be good", tools=tools, messages=said)
ask(openai + "/responses", instructions="be brief", input="fix it")
ask(openai + "/chat/completions", messages=[{"role": "user", "content": "and now"}])
open("answer.txt", "w").write("42\\n")
"""


@pytest.mark.req("E-09b", "T-05")
def test_conversation_of_a_program_that_streams_in_every_dialect(ab: Ab, task: Path, tmp_path: Path) -> None:
    (tmp_path / "program").mkdir()
    (tmp_path / "program/ask.py").write_text(DIALECTS)
    model = script(tmp_path, calls("run", command="ls"), {"text": "two"}, {"text": "three"}, {"text": "four"})
    files = ("--agent-files", tmp_path / "program", "--model", model)
    ran = ab.by_command(task, "python3 $AB_AGENT_FILES/ask.py", *files)
    assert ran.record["result"]["passed"], ran.stderr
    lines = conversation_lines(attempt_folder(ran))
    assert [(line["parent"], line["role"], line["text"]) for line in lines] == [
        (None, "system", "be good"),
        (0, "user", "hello"),
        (1, "assistant", "I see."),
        (2, "tool", "a file"),
        (3, "assistant", "two"),
        (None, "system", "be brief"),
        (5, "user", "fix it"),
        (6, "assistant", "three"),
        (None, "user", "and now"),
        (8, "assistant", "four"),
    ]
    assert lines[2]["tool_calls"][0]["arguments"] == {"command": "ls"}
