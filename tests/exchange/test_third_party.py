"""Exports are read by the programs they are for, and logs that Inspect made are imported. One process of theirs reads everything."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agentbench.authoring.formats.harbor import export_task
from agentbench.contract.load import load_task
from agentbench.core.reasons import Outcome
from agentbench.exchange.imported_run import write_imported_run
from agentbench.exchange.registry import find_exporter, find_importer
from agentbench.exchange.source_run import open_source
from agentbench.execution.lab import Lab
from agentbench.reports.paired import compare_sides
from agentbench.reports.sarif import sarif_log
from agentbench.reports.sources import open_run, run_side
from agentbench.reports.summary import decision, summarise
from tests.exchange.sample_runs import HOSTILE, sample_run
from tests.session_state import once, session_folder

pytestmark = pytest.mark.component

READER = Path(__file__).with_name("third_party.py")
TASK = """
id: t
suite: s
statement: Make it so.
repo: {path: repo}
setup: {commands: ["pip install pytest"]}
oracle:
  hidden: hidden/
  checks:
    - {id: unit, command: "python -m pytest -q tests", parser: pytest, fail_to_pass: ["tests/test_a.py::test_x"]}
reference: fix.patch
"""


@contextmanager
def receiver(received: list[bytes]) -> Iterator[str]:
    """An OTLP/HTTP endpoint that is busy at the first request."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            assert (self.path, self.headers["content-type"]) == ("/v1/traces", "application/json")
            busy = not received
            received.append(body)
            self.send_response(503 if busy else 200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def harbor_task(folder: Path, lab: Lab) -> None:
    files = {"task.yaml": TASK, "repo/a.py": "x = 1\n", "hidden/tests/test_a.py": "pass\n", "fix.patch": "p\n"}
    for name, content in files.items():
        (folder / "s/t" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "s/t" / name).write_text(content)
    export_task(load_task(folder / "s/t"), folder / "harbor", lab)


def write_exports(folder: Path) -> None:
    """Export a run with a pass, a failure and an error, and a run that keeps digests only."""
    (folder / "logs").mkdir()
    run = open_source(sample_run(folder / "runs", (Outcome.PASS, Outcome.FAIL, Outcome.ERROR)))
    withheld = open_source(sample_run(folder / "runs", digest=True))
    for source, name in ((run, "run"), (withheld, "withheld")):
        find_exporter("inspect").write(source, str(folder / f"logs/{name}.eval"))
    find_exporter("inspect").write(run, str(folder / "logs/run.json"))
    find_exporter("atif").write(run, str(folder / "atif"))
    find_exporter("otel").write(run, str(folder / "spans.jsonl"))
    received: list[bytes] = []
    with receiver(received) as address:
        assert find_exporter("otel").write(run, address).attempts == 3
    (folder / "requests.jsonl").write_bytes(b"\n".join(received[1:]))
    (folder / "run.sarif").write_text(json.dumps(sarif_log(run.run, "tasks")))
    with Lab(state=folder / "state") as lab:
        harbor_task(folder, lab)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, peers_python: str) -> Any:
    """What the other programs read, once per session: starting them takes five seconds of CPU time."""

    def read_exports() -> Any:
        folder = tmp_path_factory.mktemp("exported")
        write_exports(folder)
        done = subprocess.run([peers_python, READER, folder], capture_output=True, text=True, check=False, cwd=folder)
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout.splitlines()[-1])

    return once(session_folder(tmp_path_factory), "third-party", read_exports)


@pytest.mark.parametrize("name", ["run.eval", "run.json"])
def test_inspect_reads_messages_calls_scores_and_usage(seen: Any, name: str) -> None:
    log = seen["logs"][name]
    assert (log["status"], log["header_samples"]) == ("success", None)
    assert log["accuracy"] == pytest.approx(1 / 3)
    first, second, third = log["samples"]
    assert [sample["score"] for sample in log["samples"]] == ["C", "I", "I"]
    assert [role for role, _ in first["messages"]] == ["system", "user", "assistant", "tool", "tool", "assistant"]
    assert first["messages"][1][1] == f"fix it {HOSTILE}"
    assert first["calls"] == [{"command": HOSTILE}, {}]
    assert first["parse_errors"][1] == "not a JSON object: {not json"
    assert first["events"] == ["tool", "model", "model", "info", "score"]
    assert first["inputs"] == [2, 5]
    assert (second["error"], third["error"]) == (None, None)


def test_inspect_commands_and_viewer_read_our_logs(seen: Any) -> None:
    assert seen["listed"] == ["run.eval", "withheld.eval"]
    assert seen["commands"]["dump"] == 3
    assert seen["commands"]["headers"] == ["demo"]
    assert seen["commands"]["list"] == ["run.eval", "withheld.eval"]
    assert "index.html" in seen["bundle"]
    assert "logs/run.eval" in seen["bundle"]


def test_inspect_log_of_withheld_text_has_only_digests(seen: Any) -> None:
    sample = seen["logs"]["withheld.eval"]["samples"][0]
    assert "alert(" not in json.dumps(sample)
    assert all(text.startswith("[withheld: ") for role, text in sample["messages"] if role in {"user", "tool"})
    assert sample["events"][:3] == ["tool", "model", "model"]


def test_harbor_validates_our_trajectories(seen: Any) -> None:
    assert list(seen["atif"].values()) == [[True, []]] * 3


def test_harbor_loads_our_task(seen: Any) -> None:
    assert seen["harbor"] == [{"instruction": "Make it so.", "valid": True}]


@pytest.mark.parametrize("way", ["spans", "received"])
def test_opentelemetry_parses_our_spans(seen: Any, way: str) -> None:
    spans = seen[way]
    assert [span["name"].split()[0] for span in spans[:5]] == ["invoke_agent", "chat", "chat", "execute_tool", "check"]
    root, chat, _, tool, _ = spans[:5]
    assert (root["ids"], chat["ids"]) == ([16, 8, 0], [16, 8, 8])
    assert root["events"] == ["gen_ai.evaluation.result"]
    assert chat["attributes"]["gen_ai.usage.input_tokens"] == 100
    assert tool["attributes"]["gen_ai.tool.call.result"] == HOSTILE
    assert all(span["ordered"] for span in spans)


def test_span_attributes_are_in_the_semantic_conventions(seen: Any) -> None:
    assert seen["unknown_attributes"] == []


def test_logs_that_inspect_made_become_comparable_runs(seen: Any, tmp_path: Path) -> None:
    runs = []
    for source in map(Path, seen["made"]):
        importer = find_importer(source)
        assert importer.name == "inspect"
        runs.append(open_run(write_imported_run(importer.read(source), source, tmp_path).path))
    for run in runs:
        assert run.imported.startswith("inspect_ai 0.3")
        assert decision(summarise(run)).startswith("2 of 4 passed")
        assert sum(row.usage.completion_tokens for row in run.rows) == 8
        assert "IMPORTED from inspect_ai" in decision(summarise(run))
        assert {record.task_id for record in run.finals} >= {"wrong"}
        assert all(record.gates["G3"].outcome == "error" for record in run.finals)  # type: ignore[index]
    report = compare_sides(*map(run_side, runs))
    assert len(report.comparison.pairing.pairs) == 2


def test_sarif_reader_sees_failed_attempts_at_their_tasks(seen: Any) -> None:
    assert [(row["Tool"], row["Severity"], row["Code"], row["Location"], row["Line"]) for row in seen["sarif"]] == [
        ("AgentBench", "error", "TESTS_FAILED", "tasks/demo/task-2/task.yaml", 1),
        ("AgentBench", "warning", "ACCEPTANCE_ERROR", "tasks/demo/task-3/task.yaml", 1),
    ]
