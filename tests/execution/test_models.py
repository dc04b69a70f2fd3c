"""Models as a user names them: scripts, recordings, services without a key; and redaction of secrets."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.execution.conftest import Ab, Ran
from tests.execution.tasks import PATCH, TASK, make_task
from tests.models.conftest import Serve
from tests.models.service import Handler, answer_body, responds

pytestmark = pytest.mark.end_to_end

SECRET = "sk-or-very-secret-0123456789"


def script(folder: Path, *answers: dict[str, Any], after: str = "fail", name: str = "answers.yaml") -> str:
    path = folder / name
    path.write_text(yaml.safe_dump({"answers": list(answers), "after": after}))
    return f"scripted:{path}"


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"text": "I see.", "tool_calls": [{"name": name, "arguments": arguments}]}


SOLVED = (
    calls("run", command="mktemp; ls; echo took 0.$(date +%N)s"),
    calls("apply_patch", unified_diff=PATCH),
    {"text": "Done."},
)

ASK = """\
import json, os, sys, urllib.request
def ask(text):
    body = {"model": "x", "messages": [{"role": "user", "content": text}]}
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
        {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
open("answer.txt", "w").write(ask(sys.argv[1] if len(sys.argv) > 1 else "how much?"))
"""


def with_model(ab: Ab, task: Path, model: str, *more: str | Path, agent: str = "llm_v0") -> Ran:
    return ab.run_task(task, "--agent", agent, "--model", model, *more)


def run_folder(ran: Ran) -> Path:
    return Path(ran.json["run_dir"])


@pytest.fixture
def task(tmp_path: Path) -> Path:
    return make_task(tmp_path / "task")


@pytest.fixture
def asker(tmp_path: Path) -> Path:
    folder = tmp_path / "asker"
    folder.mkdir()
    (folder / "ask.py").write_text(ASK)
    return folder


def seeds_in_log(ran: Ran) -> set[Any]:
    (log,) = run_folder(ran).glob("tasks/*/events.jsonl")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    return {event["payload"]["parameters"].get("seed") for event in events if event["type"] == "llm_request"}


@pytest.mark.req("R-11b")
def test_seed_of_the_attempt_reaches_the_model(ab: Ab, task: Path, serve: Serve) -> None:
    server = serve(responds(answer_body("Done.")))
    ran = with_model(ab, task, f"m@{server.url}", "--seed", "77", "--no-preflight")
    assert ran.record["seed"] == 77
    assert {body["seed"] for _, _, body in server.seen} == {77} == seeds_in_log(ran)
    server.seen.clear()
    repeated = with_model(ab, task, f"m@{server.url}", "--repeats", "2", "--no-preflight")
    sent = {body["seed"] for _, _, body in server.seen}
    assert sent == {record["seed"] for record in repeated.json["attempts"]}
    assert len(sent) == 2


@pytest.mark.req("R-11b")
def test_variant_can_keep_the_seed_from_a_service_that_rejects_it(
    ab: Ab, task: Path, tmp_path: Path, serve: Serve
) -> None:
    def reject_seed(handler: Handler, body: dict[str, Any]) -> None:
        if "seed" in body:
            handler.whole(b'{"error": {"message": "unknown parameter: seed"}}', status=400)
        else:
            responds(answer_body("Done."))(handler, body)

    server = serve(reject_seed)
    rejected = with_model(ab, task, f"m@{server.url}")
    assert rejected.record["result"]["failure_reason"] == "LLM_ERROR"
    variant = tmp_path / "quiet.yaml"
    variant.write_text(f"name: quiet\nagent: llm_v0\nmodel: {{name: 'm@{server.url}', send_seed: false}}\n")
    ran = ab.run_task(task, "--variant", variant)
    assert ran.record["termination"]["code"] == "agent_stopped", ran.record["termination"]
    assert seeds_in_log(ran) == {None}


@pytest.mark.req("T-06", "R-11b")
def test_recording_without_a_seed_still_replays(ab: Ab, task: Path, tmp_path: Path) -> None:
    variant = tmp_path / "old.yaml"
    model = script(tmp_path, *SOLVED)
    variant.write_text(f"name: old\nagent: llm_v0\nmodel: {{name: '{model}', send_seed: false}}\n")
    first = ab.run_task(task, "--variant", variant)
    assert (first.record["result"]["passed"], seeds_in_log(first)) == (True, {None})
    again = with_model(ab, task, f"recorded:{run_folder(first)}", "--seed", "78")
    assert again.record["result"]["passed"], again.record["termination"]
    assert seeds_in_log(again) == {78}


@pytest.mark.req("T-04b", "T-06", "E-03", "E-04")
def test_recorded_model_reproduces_the_run_offline(ab: Ab, task: Path, tmp_path: Path) -> None:
    first = with_model(ab, task, script(tmp_path, *SOLVED))
    assert first.record["result"]["passed"], first.stderr
    again = with_model(ab, task, f"recorded:{run_folder(first)}")
    assert again.record["result"] == first.record["result"]
    assert again.record["usage"]["prompt_tokens"] == first.record["usage"]["prompt_tokens"]
    patches = [next(run_folder(ran).glob("tasks/*/diffs/final.patch")).read_bytes() for ran in (first, again)]
    assert patches[0] == patches[1] != b""
    assert ab("verify", run_folder(again)).code == 0


@pytest.mark.req("T-06")
def test_answers_of_a_service_are_replayed_without_its_settings(ab: Ab, task: Path, serve: Serve) -> None:
    service = {"AB_MODEL_BASE_URL": serve(responds(answer_body(f"```diff\n{PATCH}```"))).url}
    options = ("run-task", "--task", task, "--agent", "llm_v0", "--json", "--max-steps", "2")
    first = ab(*options, "--model", "url:loop", "--temperature", "0.5", env=service)
    assert first.record["result"]["passed"], first.stderr
    again = ab(*options, "--model", f"recorded:{run_folder(first)}")
    assert again.record["result"] == first.record["result"]


@pytest.mark.req("T-04c")
def test_context_packer_shows_the_model_files_that_the_tests_name(ab: Ab, task: Path, tmp_path: Path) -> None:
    with (task / "task.yaml").open("a") as file:
        file.write("hints: {test_command: 'echo src/mod.py:1: AssertionError; false'}\n")
    model = script(tmp_path, calls("apply_patch", unified_diff=PATCH), {"text": "Done."}, after="repeat")
    ran = with_model(ab, task, model, agent="context_packer")
    assert ran.record["result"]["passed"], ran.stderr
    shown = [blob.read_text() for blob in run_folder(ran).glob("tasks/*/blobs/*")]
    assert any("VALUE = 41" in text for text in shown), "the file named by the test output is in a request"


@pytest.mark.req("T-04d")
def test_subagents_log_who_delegated_what(ab: Ab, task: Path, tmp_path: Path) -> None:
    answers = ('{"next": "patch", "task": "write 42"}', f"```diff\n{PATCH}```", '{"next": "stop", "why": "done"}')
    ran = with_model(ab, task, script(tmp_path, *({"text": text} for text in answers)), agent="subagents")
    assert ran.record["result"]["passed"], ran.stderr
    log = next(run_folder(ran).glob("tasks/*/events.jsonl")).read_text().splitlines()
    events = [json.loads(line) for line in log]
    graph = [
        (event["payload"]["parent"], event["payload"]["child"]) for event in events if event["type"] == "delegation"
    ]
    assert graph == [("subagents", "router"), ("router", "patcher"), ("subagents", "router")]


@pytest.mark.req("T-06", "E-03")
def test_recorded_model_stops_at_the_first_difference(ab: Ab, asker: Path, task: Path, tmp_path: Path) -> None:
    line = 'python3 "$AB_AGENT_FILES/ask.py" '
    model = script(tmp_path, {"text": "42\n"})
    options = ("--agent-files", asker, "--model")
    first = ab.by_command(task, line + "'how much is it?'", *options, model)
    assert first.record["result"]["passed"], first.stderr
    recorded = f"recorded:{run_folder(first)}"
    other = ab.by_command(task, line + "'what is it?'", *options, recorded)
    assert other.record["result"]["failure_reason"] == "LLM_ERROR"
    log = next(run_folder(other).glob("tasks/*/events.jsonl")).read_text()
    assert "what is it?" in log
    assert re.search(r"-[^\n]*how much is it\?", log), "the difference is shown"
    lenient = ab.by_command(task, line + "'what is it?'", *options, recorded, "--lenient")
    assert lenient.record["result"]["passed"]


@pytest.mark.req("E-07b")
def test_process_left_by_a_program_makes_no_request_after_its_end(
    ab: Ab, asker: Path, task: Path, tmp_path: Path
) -> None:
    ask = 'python3 "$AB_AGENT_FILES/ask.py"'
    line = f"{ask}; (while :; do {ask}; done) & sleep 0.5"
    model = script(tmp_path, {"text": "42\n"}, after="repeat")
    ran = ab.by_command(task, line, "--agent-files", asker, "--model", model)
    log = next(run_folder(ran).glob("tasks/*/events.jsonl")).read_text().splitlines()
    types = [json.loads(event)["type"] for event in log]
    assert types.count("llm_request") > 1
    assert not {"llm_request", "llm_response"} & set(types[types.index("termination") :])
    verified = ab("verify", run_folder(ran))
    assert verified.code == 0, verified.stdout


@pytest.mark.req("T-06")
def test_recording_without_the_attempt_is_rejected(ab: Ab, task: Path, tmp_path: Path) -> None:
    first = with_model(ab, task, script(tmp_path, *SOLVED))
    other = make_task(tmp_path / "other", task_id="other")
    refused = with_model(ab, other, f"recorded:{run_folder(first)}")
    assert refused.code == 2
    assert "has no recorded attempt at task other" in refused.stderr


@pytest.mark.req("T-06")
def test_missing_api_key_is_named_before_the_run(ab: Ab, task: Path, tmp_path: Path) -> None:
    refused = with_model(ab, task, "openrouter:some/model")
    assert refused.code == 2
    assert "OPENROUTER_API_KEY" in refused.stderr
    assert not (tmp_path / "artifacts").exists()


@pytest.mark.parametrize(
    "model, message",
    [
        ("scripted:no-such.yaml", "no-such.yaml"),
        ("recorded:no-such-run", "no-such-run"),
        ("nonsense:model", "nonsense"),
    ],
)
def test_unusable_model_is_rejected(ab: Ab, task: Path, model: str, message: str) -> None:
    refused = with_model(ab, task, model)
    assert refused.code == 2
    assert message in refused.stderr


@pytest.mark.req("T-06")
def test_model_script_lists_all_its_problems(ab: Ab, task: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("answers: [{txt: hello}, {tool_calls: [{arguments: {}}]}]\n")
    refused = with_model(ab, task, f"scripted:{path}")
    assert refused.code == 2
    assert "bad.yaml:1: answers[0].txt: unknown key (did you mean `text`?)" in refused.stderr
    assert "bad.yaml:1: answers[1].tool_calls[0].name: missing" in refused.stderr


def test_run_without_recorded_answers_is_refused(ab: Ab, task: Path, tmp_path: Path) -> None:
    recorded = ab.run_task(task, "--agent", "noop").json["run_dir"]
    runs = len(list((tmp_path / "artifacts" / "runs").iterdir()))
    refused = with_model(ab, task, f"recorded:{recorded}")
    assert refused.code == 2
    assert "no recorded answers for task" in refused.stderr
    assert len(list((tmp_path / "artifacts" / "runs").iterdir())) == runs


@pytest.mark.req("T-04b", "E-12")
@pytest.mark.parametrize("agent", ["llm_v0", "subagents"])
def test_run_of_an_agent_that_gave_up_verifies(ab: Ab, task: Path, tmp_path: Path, agent: str) -> None:
    (task / "task.yaml").write_text(TASK.format(id="answer") + 'hints: {test_command: "grep -x 42 answer.txt"}\n')
    ran = with_model(ab, task, script(tmp_path, {"text": "I do not know."}, after="repeat"), agent=agent)
    assert ran.record["termination"]["code"] == "agent_stopped", ran.stderr
    assert ran.record["result"]["failure_reason"] == "TESTS_FAILED"
    assert ab("verify", run_folder(ran)).code == 0


@pytest.mark.req("E-10a")
def test_printed_secrets_are_redacted_everywhere(ab: Ab, asker: Path, task: Path, tmp_path: Path) -> None:
    model = script(tmp_path, {"text": f"the key is {SECRET}\n"})
    line = f'echo {SECRET}; echo {SECRET} >&2; seq 100000; python3 "$AB_AGENT_FILES/ask.py" {SECRET}'
    ran = Ab(ab.cwd, {**ab.env, "OPENROUTER_API_KEY": SECRET}).by_command(
        task, line, "--agent-files", asker, "--model", model
    )
    assert ran.record["result"]["failure_reason"] == "TESTS_FAILED", ran.stderr
    folder = run_folder(ran)
    holding = [str(path) for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert holding == []
    assert SECRET not in ran.stdout + ran.stderr
    events = next(folder.glob("tasks/*/events.jsonl")).read_text()
    (placeholder,) = set(re.findall(r"\[redacted:OPENROUTER_API_KEY:[^\]]+\]", events))
    assert events.count(placeholder) > 3
    assert ab("verify", folder).code == 0


@pytest.mark.req("R-09", "T-05", "E-10a")
def test_sandbox_has_no_api_key(ab: Ab, task: Path, tmp_path: Path) -> None:
    with_key = Ab(ab.cwd, {**ab.env, "OPENROUTER_API_KEY": SECRET, "ANTHROPIC_API_KEY": SECRET})
    line = f"env | sort > answer.txt; grep -als {SECRET[:12]} /proc/*/environ >> answer.txt || true"
    ran = with_key.by_command(task, line, "--model", script(tmp_path, {"text": "x"}))
    patch = next(run_folder(ran).glob("tasks/*/diffs/final.patch")).read_text()
    assert "+ANTHROPIC_API_KEY=agentbench-placeholder-key" in patch
    # A key that had been there would have a placeholder in the patch.
    for trace in (SECRET, "redacted", "OPENROUTER", "/environ"):
        assert trace not in patch


@pytest.mark.req("T-05")
@pytest.mark.parametrize("status", [429, 503])
def test_program_with_a_failing_model_ends_as_llm_error(
    ab: Ab, asker: Path, task: Path, tmp_path: Path, status: int
) -> None:
    model = script(tmp_path, {"error": {"status": status, "message": "not today"}}, after="repeat")
    ran = ab.by_command(task, 'python3 "$AB_AGENT_FILES/ask.py"', "--agent-files", asker, "--model", model)
    assert ran.record["result"]["failure_reason"] == "LLM_ERROR"
    assert ran.record["observability"] == "gateway"
    manifest = json.loads(next(run_folder(ran).glob("tasks/*/manifest.json")).read_text())
    assert manifest["protocol_manifest"]["planned"]["observability"] == "gateway"


@pytest.mark.req("M-06a")
def test_token_budget_ends_an_agent(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task", more="budget: {tokens: 3000}\n")
    wrong = {**calls("apply_patch", unified_diff=PATCH.replace("42", "43")), "usage": {"prompt": 100}}
    dear = {**calls("list_files"), "usage": {"prompt": 2880}}
    ran = with_model(ab, task, script(tmp_path, wrong, dear, after="repeat"))
    events = next(run_folder(ran).glob("tasks/*/events.jsonl")).read_text().splitlines()
    ends = [event["payload"] for event in map(json.loads, events) if event["type"] == "termination"]
    assert [end["code"] for end in ends] == ["token_cap"]


@pytest.mark.req("M-07a")
def test_budget_of_no_tokens_refuses_the_first_request(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task", more="budget: {tokens: 0}\n")
    ran = with_model(ab, task, script(tmp_path, {"text": "Done."}))
    assert ran.record["termination"]["code"] == "token_cap"
    verified = ab("verify", run_folder(ran))
    assert verified.code == 0, verified.stdout
    assert ab.run_task(task, "--agent", "reference").record["result"]["passed"]


@pytest.mark.req("R-10")
def test_silent_model_is_aborted_at_the_deadline(ab: Ab, tmp_path: Path) -> None:
    task = make_task(
        tmp_path / "task", text=TASK.format(id="answer").replace("timeout_sec: 120,", "timeout_sec: 2,", 1)
    )
    ran = with_model(ab, task, script(tmp_path, {"text": "late", "delay_sec": 600}))
    assert ran.record["result"]["failure_reason"] == "TIMEOUT"
