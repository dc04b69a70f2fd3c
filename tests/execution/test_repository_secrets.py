"""Secrets in repository files: agents and checks see them, the run directory does not."""

from __future__ import annotations

import base64
import gzip
import io
import json
import random
import string
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.execution.conftest import Ab, Ran
from tests.execution.tasks import TASK, make_task
from tests.models.service import Handler, Server, answer_body, stream_chunks

pytestmark = [pytest.mark.req("E-10a"), pytest.mark.end_to_end]

_RANDOM = random.Random(7)


def _letters(length: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    return "".join(_RANDOM.choices(alphabet, k=length))


HEX = _letters(40, "0123456789abcdef")
AWS_ID = "AKIAQ7LR2MXW4ZP9TBNC"
URL_PASSWORD = "Vk3mZ8qLw2"
JWT = ".".join(("eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiI" + _letters(30), _letters(43)))
KEY_LINES = [_letters(64), _letters(64), _letters(20) + "=="]
PEM = "\n".join(("-----BEGIN PRIVATE KEY-----", *KEY_LINES, "-----END PRIVATE KEY-----"))
SERVICE_LINES = [_letters(64), _letters(30)]
SERVICE_KEY = "\\n".join(("-----BEGIN PRIVATE KEY-----", *SERVICE_LINES, "-----END PRIVATE KEY-----"))
DATABASE, LOGIN, LETTERS = "Qz7-kW2pVx9", "m4Xt-8Lr#Jb", "QwzXkLpRtYvBnKmHsD"

REPOSITORY = {
    "config.py": f"DEBUG = False\nPASSWORD = 'k2Vw-9xPq#R'\nTOKEN = '{JWT}'\nLIMIT = 3\n",
    "app.ini": f"[app]\napi_token = {HEX}\nname = demo\n",
    ".env": f"AWS_ACCESS_KEY_ID={AWS_ID}\nDATABASE=postgres://app:{URL_PASSWORD}@db/prod\n",
    "deploy.pem": PEM + "\n",
    "account.json": json.dumps({"type": "service", "private_key": "@"}).replace("@", SERVICE_KEY) + "\n",
    "access.py": (
        f"DB = 'Server=db;Password={DATABASE};'\nrun('curl -u app:{LOGIN} host')\nSERVICE_PASS = (\n    '{LETTERS}'\n)\n"
    ),
    "plain.py": 'password = "test"\nname = "example-password-1"\n',
}
CANARIES = ("k2Vw-9xPq#R", HEX, AWS_ID, URL_PASSWORD, JWT, DATABASE, LOGIN, LETTERS, *KEY_LINES, *SERVICE_LINES)
ALL = "config.py app.ini .env access.py deploy.pem account.json"
PRINT = f"cat {ALL}; base64 -w0 deploy.pem; python3 -c \"import json; print(json.load(open('account.json')))\"; cat {ALL} >&2"
CHECK = f"cat {ALL}; cat {ALL} >&2; grep -q {HEX[:9]} app.ini && grep -qx 42 answer.txt"

PATCH = f"""\
diff --git a/answer.txt b/answer.txt
--- a/answer.txt
+++ b/answer.txt
@@ -1 +1 @@
-41
+42
diff --git a/config.py b/config.py
--- a/config.py
+++ b/config.py
@@ -1,4 +1,4 @@
-DEBUG = False
+DEBUG = True
 PASSWORD = 'k2Vw-9xPq#R'
-TOKEN = '{JWT}'
+TOKEN = '{JWT}'  # from the service
 LIMIT = 3
"""


@pytest.fixture
def task(tmp_path: Path) -> Path:
    text = (
        TASK.format(id="answer")
        .replace("grep -qx 42 answer.txt", CHECK)
        .replace("timeout_sec: 120,", "timeout_sec: 60,")
    )
    folder = make_task(
        tmp_path / "task", text=text, more=f'setup: {{commands: ["cat {ALL}"]}}\nartifacts: {{keep_workspace: true}}\n'
    )
    for name, content in REPOSITORY.items():
        (folder / "repo" / name).write_text(content)
    return folder


def exposed(folder: Path) -> list[str]:
    """Return every place in a run directory that has a canary, also inside of archives and in base64."""
    forms = [form for canary in CANARIES for form in (canary, base64.b64encode(canary.encode()).decode().rstrip("="))]
    return [f"{name}: {form}" for name, data in _contents(folder) for form in forms if form.encode() in data]


def _contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            yield str(path), data
            if path.name.endswith(".tar.gz"):
                with tarfile.open(fileobj=io.BytesIO(gzip.decompress(data))) as tar:
                    for member in tar.getmembers():
                        file = tar.extractfile(member)
                        yield f"{path}/{member.name}", member.name.encode() + (file.read() if file else b"")


def folder_of(ran: Ran) -> Path:
    return Path(ran.json["run_dir"])


def events(folder: Path) -> str:
    return next(folder.glob("tasks/*/events.jsonl")).read_text()


def report_everything(ab: Ab, folder: Path) -> None:
    """Write every kind of report into the run directory."""
    (folder / "shown.txt").write_text(ab("show", folder, "--task", "answer").stdout)
    (folder / "shown.json").write_text(ab("show", folder, "--task", "answer", "--json").stdout)
    assert ab("show", folder, "--task", "answer", "--html", folder / "attempt.html").code == 0
    for kind in ("html", "md", "csv", "junit", "json"):
        ran = ab("report", "summary", folder, "--format", kind)
        (folder / f"report.{kind}").write_text(ran.stdout)


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    call = {"id": f"call_{name}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return answer_body(f"I use {' '.join(CANARIES)}", tool_calls=[call])


@pytest.fixture
def echo() -> Iterator[Server]:
    """A model on loopback that repeats the secrets in texts, arguments, and streams of single letters."""
    answers = [
        _call("run", command=PRINT),
        _call("read_file", path="config.py"),
        _call("search", pattern=HEX),
        _call("apply_patch", unified_diff=PATCH),
        answer_body("Done: " + PEM + " ".join(CANARIES)),
    ]

    def behave(handler: Handler, body: dict[str, Any]) -> None:
        if body.get("stream"):
            handler.begin_stream()
            for chunk in stream_chunks(f"{PEM} {' '.join(CANARIES)}"):
                handler.chunk(chunk)
            handler.chunk(b"")
            return
        handler.whole(json.dumps(answers.pop(0) if len(answers) > 1 else answers[0]).encode())

    server = Server(behave)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_model_agent_leaves_no_secret_in_the_run_directory(ab: Ab, task: Path, echo: Server) -> None:
    own = Ab(ab.cwd, {**ab.env, "AB_MODEL_BASE_URL": echo.url})
    ran = own.run_task(task, "--agent", "llm_v0", "--model", "url:echo")
    assert ran.code == 0, ran.stderr
    folder = folder_of(ran)
    # The agent, the model and the checks saw the real bytes.
    assert ran.record["result"]["passed"], ran.record
    assert any(JWT in json.dumps(body) for _, _, body in echo.seen)
    report_everything(own, folder)
    assert exposed(folder) == []
    assert "[redacted:repo-secret:" in (folder / "tasks/answer/repo/config.py").read_text()
    log = events(folder)
    assert "[redacted:repo-secret:" in log
    # Ordinary values stay readable.
    assert "DEBUG = True" in (folder / ran.record["patch"]["path"]).read_text()
    assert own("verify", folder).code == 0


def test_program_and_failing_check_leave_no_secret(ab: Ab, task: Path, echo: Server, tmp_path: Path) -> None:
    own = Ab(ab.cwd, {**ab.env, "AB_MODEL_BASE_URL": echo.url})
    files = tmp_path / "agent"
    files.mkdir()
    (files / "ask.py").write_text(
        "import json, os, pathlib, urllib.request\n"
        "text = ''.join(pathlib.Path(name).read_text() for name in os.environ['FILES'].split())\n"
        "body = {'model': 'x', 'stream': True, 'messages': [{'role': 'user', 'content': text}]}\n"
        "request = urllib.request.Request(os.environ['OPENAI_BASE_URL'] + '/chat/completions', json.dumps(body).encode(),\n"
        "    {'content-type': 'application/json', 'authorization': 'Bearer ' + os.environ['OPENAI_API_KEY']})\n"
        "print(urllib.request.urlopen(request).read().decode())\n"
    )
    line = (
        f"{PRINT}; seq 3000; /bin/echo $(cat app.ini config.py) > /dev/null; FILES='{ALL}' python3 $AB_AGENT_FILES/ask.py; "
        "sed -i 's/DEBUG = False/DEBUG = True/; s/LIMIT = 3/LIMIT = 4/' config.py; "
        "sed -i 's/$/ /' deploy.pem account.json; cp .env copy.env; echo 43 > answer.txt"
    )
    ran = own.by_command(task, line, "--agent-files", files, "--model", "url:echo")
    assert ran.code == 0, ran.stderr
    assert ran.record["result"]["failure_reason"] == "TESTS_FAILED", ran.record
    folder = folder_of(ran)
    report_everything(own, folder)
    assert exposed(folder) == []
    assert own("verify", folder).code == 0
    replayed = own("replay", folder, "--json")
    assert replayed.code == 0, replayed.stdout
    assert "agrees" in replayed.stdout


def test_manifest_lists_places_and_placeholders_without_values(ab: Ab, task: Path) -> None:
    ran = ab.by_command(task, "true")
    folder = folder_of(ran)
    manifest = json.loads(next(folder.glob("tasks/*/manifest.json")).read_text())
    found = manifest["protocol_manifest"]["observed"]["repository_secrets"]
    listed = {(secret["kind"], *secret["places"]) for secret in found["secrets"]}
    assert ("private key", "deploy.pem:1") in listed
    assert ("JSON Web Token", "config.py:3") in listed
    assert ("password in an address", ".env:2") in listed
    assert ("connection string", "access.py:1") in listed
    assert ("password of a command", "access.py:2") in listed
    assert ("assigned value", "access.py:4") in listed
    assert not any("plain.py" in place for _, *places in listed for place in places)
    assert [secret["placeholder"] for secret in found["secrets"]] == [
        f"[redacted:repo-secret:{number}]" for number in range(1, 11)
    ]
    assert (found["complete"], found["skipped_files"]) == (True, 0)
    shown = ab("show", folder).stdout
    assert "10 secrets of the base repository redacted" in shown


def test_equal_runs_have_equal_placeholders(ab: Ab, task: Path) -> None:
    patches = [
        (folder_of(ran) / ran.record["patch"]["path"]).read_text()
        for ran in (
            ab.by_command(task, "sed -i 's/LIMIT = 3/LIMIT = 4/' config.py; echo 42 > answer.txt") for _ in "12"
        )
    ]
    assert patches[0] == patches[1]
    assert "[redacted:repo-secret:" in patches[0]


def test_graded_patch_leaves_no_secret(ab: Ab, task: Path, tmp_path: Path) -> None:
    (tmp_path / "given.patch").write_text(PATCH)
    ran = ab("grade", "--task", task, "--patch", tmp_path / "given.patch", "--json")
    assert ran.code == 0, ran.stderr
    (run,) = (tmp_path / "artifacts" / "runs").iterdir()
    assert exposed(run) == []
    assert ab("verify", run).code == 0
    (attempt,) = ab("replay", run, "--json").json["attempts"]
    assert attempt["agreement"] == "agrees", attempt


@pytest.mark.req("E-13")
def test_replay_restores_the_exact_patch(ab: Ab, task: Path) -> None:
    # The check needs the real token in a file that the patch creates.
    text = (task / "task.yaml").read_text().replace("grep -qx 42 answer.txt", f"grep -qx {HEX} answer.txt")
    (task / "task.yaml").write_text(text)
    ran = ab.by_command(task, "sed -n 's/api_token = //p' app.ini > answer.txt")
    assert ran.record["result"]["passed"], ran.record
    folder = folder_of(ran)
    assert exposed(folder) == []
    assert ab("verify", folder).code == 0
    replayed = ab("replay", folder, "--json")
    assert replayed.code == 0, replayed.stdout + replayed.stderr
    assert "agrees" in replayed.stdout
    # Without the repository the patch cannot be restored, and says so.
    for path in (task / "repo").iterdir():
        if path.is_file():
            path.write_text("changed\n")
    elsewhere = Ab(ab.cwd, {**ab.env, "AB_STATE": str(ab.cwd / "other-state")})
    assert "unavailable" in elsewhere("replay", folder, "--json").stdout


@pytest.mark.req("E-13")
def test_replay_restores_secrets_in_hidden_files(ab: Ab, task: Path) -> None:
    text = (task / "task.yaml").read_text()
    text = text.replace("  checks:\n", "  hidden: hidden\n  checks:\n").replace(
        "grep -qx 42", "cmp hidden.ini app.ini && grep -qx 42"
    )
    (task / "task.yaml").write_text(text)
    (task / "hidden").mkdir()
    (task / "hidden" / "hidden.ini").write_text(REPOSITORY["app.ini"])
    ran = ab.by_command(task, "echo 42 > answer.txt")
    assert ran.record["result"]["passed"], ran.record
    folder = folder_of(ran)
    assert exposed(folder) == []
    (attempt,) = ab("replay", folder, "--json").json["attempts"]
    assert attempt["agreement"] == "agrees", attempt


@pytest.mark.req("E-13")
def test_replay_recognises_failing_tests_named_after_secrets(ab: Ab, task: Path) -> None:
    text = (task / "task.yaml").read_text()
    start = text.index("    - {id: answer")
    end = text.index("\n", start)
    check = {
        "id": "answer",
        "command": "sh report.sh",
        "parser": "junit",
        "report": "r.xml",
        "timeout_sec": 20,
        "fail_to_pass": [f"login::accepts[{HEX}]"],
    }
    (task / "task.yaml").write_text(f"{text[:start]}    - {json.dumps(check)}{text[end:]}")
    (task / "repo" / "report.sh").write_text(
        "token=$(sed -n 's/api_token = //p' app.ini)\n"
        "echo \"<testsuite><testcase classname='login' name='accepts[$token]'>\" > r.xml\n"
        "grep -qx 42 answer.txt || echo \"<failure message='$token is wrong'/>\" >> r.xml\n"
        'echo "</testcase></testsuite>" >> r.xml\n'
    )
    ran = ab.by_command(task, "echo 43 > answer.txt")
    assert ran.record["result"]["failure_reason"] == "TESTS_FAILED", ran.record
    folder = folder_of(ran)
    report_everything(ab, folder)
    assert exposed(folder) == []
    (attempt,) = ab("replay", folder, "--json").json["attempts"]
    assert attempt["agreement"] == "agrees", attempt
    solved = ab.by_command(task, "echo 42 > answer.txt")
    assert solved.record["result"]["passed"], solved.record
    assert ab("verify", folder_of(solved)).code == 0


def test_cached_values_are_removed_with_the_cache(ab: Ab, task: Path) -> None:
    own = Ab(ab.cwd, {**ab.env, "AB_STATE": str(ab.cwd / "own-state")})
    assert own.by_command(task, "true").code == 0
    (file,) = (ab.cwd / "own-state" / "snapshots" / "secrets").iterdir()
    assert HEX in file.read_text()
    assert own("cache", "prune", "--all").code == 0
    assert not file.exists()


@pytest.mark.req("T-06")
def test_recorded_model_restores_secrets_in_answers(ab: Ab, task: Path, tmp_path: Path) -> None:
    answers = [
        {"text": PEM, "tool_calls": [{"name": "run", "arguments": {"command": PRINT}}]},
        {"text": JWT, "tool_calls": [{"name": "apply_patch", "arguments": {"unified_diff": PATCH}}]},
        {"text": "Done."},
    ]
    (tmp_path / "answers.yaml").write_text(yaml.safe_dump({"answers": answers}))
    first = ab.run_task(task, "--agent", "llm_v0", "--model", f"scripted:{tmp_path / 'answers.yaml'}")
    again = ab.run_task(task, "--agent", "llm_v0", "--model", f"recorded:{folder_of(first)}")
    assert again.record["result"] == first.record["result"], again.record
    assert again.record["result"]["passed"]
    assert again.record["patch"]["sha256"] == first.record["patch"]["sha256"]
    assert exposed(folder_of(again)) == []
