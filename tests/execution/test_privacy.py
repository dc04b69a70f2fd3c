"""A run that keeps digests instead of text: nothing that anybody wrote is in its directory, and it can still be audited."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import yaml

from tests.execution.conftest import Ab
from tests.execution.tasks import PATCH, TASK, make_task

pytestmark = [pytest.mark.req("E-03", "E-10b"), pytest.mark.end_to_end]

STATEMENT, ANSWER, OUTPUT, PATCHED = "statement-7c1e", "answer-5b2d", "output-9e4f-43", "patched-3a6b"
DENIED, NAMED = "denied-1d8c", "named-6f0a"
TOOL, FILE = "invented_tool_2e7d", "invented-file-8a1b"
TEXTS = (STATEMENT, ANSWER, OUTPUT, PATCHED, DENIED, NAMED, TOOL, FILE)
DIFF = PATCH + f"--- /dev/null\n+++ b/{FILE}.txt\n@@ -0,0 +1 @@\n+{PATCHED}\n"


@pytest.fixture
def task(tmp_path: Path) -> Path:
    text = TASK.format(id="answer").replace("The file", f"{STATEMENT}, the file")
    more = 'policy: {deny_commands: [{pattern: "curl *", severity: gate}]}\nartifacts: {keep_workspace: true}\n'
    return make_task(tmp_path / "task", text=text, more=more)


@pytest.fixture
def model(tmp_path: Path) -> str:
    answers = [
        {
            "text": ANSWER,
            "tool_calls": [{"name": "run", "arguments": {"command": "echo output-9e4f-$((42 + 1)); seq 3000"}}],
        },
        {"text": ANSWER, "tool_calls": [{"name": "run", "arguments": {"command": f"curl {DENIED}"}}]},
        {"text": ANSWER, "tool_calls": [{"name": "apply_patch", "arguments": {"unified_diff": DIFF}}]},
        {"text": ANSWER, "tool_calls": [{"name": TOOL, "arguments": {}}]},
        {"text": f"Done: {ANSWER}"},
    ]
    (tmp_path / "answers.yaml").write_text(yaml.safe_dump({"answers": answers}))
    return f"scripted:{tmp_path / 'answers.yaml'}"


def exposed(folder: Path) -> list[tuple[str, str]]:
    """Return where a run directory has any of the texts, also compressed."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            whole = data + (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else b"")
            found += [(str(path.relative_to(folder)), text) for text in TEXTS if text.encode() in whole]
    return found


def write_reports(ab: Ab, run: Path) -> None:
    """Write every kind of report into the run directory."""
    for number, arguments in enumerate(
        (
            ("show", run, "--task", "answer"),
            ("show", run, "--json"),
            *(("report", "summary", "--run", run, "--format", kind) for kind in ("md", "csv", "json", "junit")),
        )
    ):
        ran = ab(*arguments)
        assert ran.code == 0, ran.stderr
        (run / f"report{number}").write_text(ran.stdout)
    assert ab("show", run, "--task", "answer", "--html", run / "attempt.html").code == 0


def test_model_run_has_no_text_and_can_be_audited(ab: Ab, task: Path, model: str) -> None:
    recipient = ab("vault", "new-key", "audit.key").stdout.strip()
    given = ("--agent", "llm_v0", "--model", model)
    plain = ab.run_task(task, *given, "--name", "plain")
    plain_run = Path(plain.json["run_dir"])
    assert {text for _, text in exposed(plain_run)} == set(TEXTS) - {NAMED}
    ran = ab.run_task(task, *given, "--evidence", "digest", "--vault-recipient", recipient)
    assert ran.code == 0, ran.stderr
    run = Path(ran.json["run_dir"])
    assert exposed(run.parent / ".vault") == exposed(run) == []
    write_reports(ab, run)
    assert exposed(run) == []
    # Monitors saw the real commands, and the verdict is the same.
    same = ("result", "run_status", "progress")
    assert {name: ran.record[name] for name in same} == {name: plain.record[name] for name in same}
    assert [tag["attributes"] for tag in ran.record["tags"]] == [tag["attributes"] for tag in plain.record["tags"]]
    assert ran.record["result"]["failure_reason"] == "POLICY_VIOLATION"
    verified = ab("verify", run)
    assert verified.stdout.startswith("VERIFIED: 1 attempt"), verified.stdout
    assert "1 verdict recomputed" in verified.stdout
    skipped = "not recomputed: decisions of breakers and monitors: the run keeps digests instead of text (attempts: 1)"
    assert skipped in verified.stdout
    assert ab("rescore", run, "--caps", _caps(ab.cwd)).code == 0
    # The log says how long each text was, and its digest.
    lines = map(json.loads, (run / "tasks/answer/events.jsonl").read_text().splitlines())
    requests = [event["payload"]["messages"] for event in lines if event["type"] == "llm_request"]
    assert all(request["total_bytes"] > 100 and len(request["sha256"]) == 64 for request in requests)
    assert len(requests) == 5
    without = ab("replay", run)
    assert (without.code, "give the store's key with --key FILE" in without.stdout) == (2, True)
    assert ab("replay", run, "--key", "audit.key").stdout.startswith("AGREES: 1 attempt replayed")
    patch = ab("vault", "get", run, "--file", "diffs/final.patch", "--key", "audit.key", "--reason", "audit")
    assert f"+{PATCHED}" in patch.stdout
    recorded = ab("run-task", "--task", task, "--agent", "llm_v0", "--model", f"recorded:{run}")
    assert (recorded.code, "keeps digests instead of text" in recorded.stderr) == (2, True), recorded


def _caps(folder: Path) -> Path:
    (folder / "caps.yaml").write_text("tool_calls: 100\n")
    return folder / "caps.yaml"


def test_program_run_has_no_text_even_without_a_store(ab: Ab, task: Path, tmp_path: Path) -> None:
    files = tmp_path / "agent"
    files.mkdir()
    (files / "solve.sh").write_text(
        f"/bin/echo {ANSWER}\nsh -c 'echo output-9e4f-$((42 + 1)); curl {DENIED}'\necho 42 > answer.txt\necho {PATCHED} > {FILE}.so\n"
    )
    (tmp_path / "private.yaml").write_text(
        'name: private\ncommand: sh "$AB_AGENT_FILES/solve.sh"\nfiles: agent\nevidence: {text: digest}\n'
    )
    ran = ab.run_task(task, "--variant", "private.yaml")
    assert ran.code == 0, ran.stderr
    run = Path(ran.json["run_dir"])
    write_reports(ab, run)
    assert exposed(run) == []
    assert any(tag["gate"] == "G4" for tag in ran.record["tags"]), ran.record["tags"]
    assert ab("verify", run).code == 0
    assert not (run / "tasks/answer/repo").exists()
    manifest = json.loads((run / "tasks/answer/manifest.json").read_text())
    assert manifest["protocol_manifest"]["planned"]["evidence"] == {"text": "digest"}
    assert json.loads((run / "run.json").read_text())["evidence"] == {"text": "digest", "originals": "not kept"}


def test_graded_patch_is_only_in_the_store(ab: Ab, task: Path, tmp_path: Path) -> None:
    (tmp_path / "fix.patch").write_text(DIFF)
    own = Ab(ab.cwd, {**ab.env, "AB_VAULT_PASSPHRASE": "correct horse"})
    given = ("--task", task, "--patch", "fix.patch", "--evidence", "digest", "--vault-passphrase", "--json")
    ran = own("grade", *given)
    assert ran.code == 0, ran.stderr
    run = Path(ran.json["run_dir"])
    assert exposed(run.parent / ".vault") == exposed(run) == []
    assert ab("verify", run).code == 0
    patch = own("vault", "get", run, "--file", "diffs/final.patch", "--reason", "audit")
    assert f"+{PATCHED}" in patch.stdout


def test_full_text_still_has_no_declared_secret(ab: Ab, task: Path) -> None:
    (task / "repo" / "app.ini").write_text("api_token = 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b\n")
    text = (task / "task.yaml").read_text().replace("{keep_workspace: true}", "{redact: [PRIVATE_NAME]}")
    (task / "task.yaml").write_text(text)
    own = Ab(ab.cwd, {**ab.env, "PRIVATE_NAME": NAMED})
    ran = own.by_command(task, f"cat app.ini; echo {NAMED}; echo 42 > answer.txt", "--evidence", "full")
    run = Path(ran.json["run_dir"])
    log = (run / "tasks/answer/events.jsonl").read_text()
    assert "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b" in log
    found = {text for _, text in exposed(run)}
    assert STATEMENT in found
    assert NAMED not in found
    assert ab("verify", run).code == 0
    assert ab("replay", run).code == 0


def test_judge_reads_text_that_is_not_on_disk(ab: Ab, task: Path, model: str, tmp_path: Path) -> None:
    opinion = {
        "task_completion": 4,
        "instruction_adherence": 5,
        "efficiency": 5,
        "facts": [{"claim": ANSWER, "verdict": "refuted", "evidence": PATCHED}],
        "reasoning": OUTPUT,
        "verdict": "FAIL",
        "failure_mode": "wrong_behaviour",
    }
    (tmp_path / "judge.yaml").write_text(yaml.safe_dump({"answers": [{"text": json.dumps(opinion)}]}))
    recipient = ab("vault", "new-key", "audit.key").stdout.strip()
    given = ("--agent", "llm_v0", "--model", model, "--judge-model", f"scripted:{tmp_path / 'judge.yaml'}")
    ran = ab.run_task(task, *given, "--evidence", "digest", "--vault-recipient", recipient)
    assert ran.code == 0, ran.stderr
    run = Path(ran.json["run_dir"])
    assert (ran.record["judge"]["verdict"], ran.record["judge"]["task_completion"]) == ("FAIL", 4)
    write_reports(ab, run)
    assert exposed(run) == []
    assert ab("verify", run).code == 0
    lines = map(json.loads, (run / "tasks/answer/events.jsonl").read_text().splitlines())
    (judged,) = (event for event in lines if event["type"] == "judge_result")
    original = ab("vault", "get", run, "--event", str(judged["seq"]), "--key", "audit.key", "--reason", "audit").stdout
    # The request to the judge had the statement, the answers, the output and the patch.
    assert [text for text in (STATEMENT, ANSWER, OUTPUT, PATCHED) if text not in original] == []


def test_operator_cannot_be_combined_with_digests(ab: Ab, task: Path) -> None:
    ran = ab("run-task", "--task", task, "--agent", "noop", "--evidence", "digest", "--operator")
    assert ran.code == 2
    assert ran.stderr.startswith("error: --evidence digest and --operator cannot be combined")
    assert not (ab.cwd / "artifacts").exists()
