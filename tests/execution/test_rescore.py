"""A rescore at a cap gives the verdicts of a real run at that cap, for agents that always act the same."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.execution.conftest import Ab, Ran
from tests.execution.tasks import PATCH, make_task
from tests.models.service import Handler, Server, answer_body

pytestmark = pytest.mark.end_to_end

HIGH = 100.0
PRICES = "action_type,unit,unit_price\ntool_call,call,0.1\nllm_request,call,0.05\n"
CALLS: list[tuple[str, dict[str, Any]]] = [
    *(("list_files", {"glob": f"*{number}"}) for number in range(3)),
    ("apply_patch", {"unified_diff": PATCH}),
    *(("list_files", {"glob": f"*{number}"}) for number in range(3, 7)),
]


def make_tasks(folder: Path, budgets: list[float]) -> Path:
    """Create a suite with one task per cost cap; the tasks differ in nothing else."""
    for number, usd in enumerate(budgets):
        make_task(folder / "tiny" / f"cap{number}", task_id=f"cap{number}", more=f"budget: {{usd: {usd}}}\n")
    return folder


def run_and_compare(ab: Ab, ran: Ran, budgets: list[float]) -> list[str]:
    """Compare the attempts at each cap with the rescored attempt at the high cap. Return how they ended."""
    assert ran.code == 0, ran.stderr
    run = ran.json["run_dir"]
    verified = ab("verify", run)
    assert verified.code == 0, verified.stdout
    real = {record["task_id"]: record for record in ran.json["attempts"]}
    assert real["cap0"]["termination"]["code"] == "agent_stopped"
    endings = []
    for number, usd in enumerate(budgets[1:], start=1):
        caps = ab.cwd / "caps.yaml"
        caps.write_text(f"usd: {usd}\n")
        rescored = ab("rescore", run, "--caps", caps, "--json").json
        (high,) = [attempt for attempt in rescored["attempts"] if attempt["task"] == "cap0"]
        record = real[f"cap{number}"]
        expected = {
            "counterfactual_passed": record["result"]["passed"],
            "counterfactual_reason": record["result"]["failure_reason"],
            "counterfactual_run_status": record["run_status"],
            "counterfactual_termination": record["termination"]["code"],
        }
        assert {key: high[key] for key in expected} == expected, (usd, high["why"])
        # The share of the time cap differs a little between two runs.
        assert high["counterfactual_efficiency"] == pytest.approx(record["components"]["efficiency"], abs=0.05)
        endings.append(f"{record['termination']['code']} {record['result']['passed']}")
    return endings


@pytest.mark.req("A-09a", "A-09b", "G-18")
def test_rescore_of_priced_tool_calls_matches_real_runs(ab: Ab, tmp_path: Path) -> None:
    # Acceptance is expected to cost 0.15, so the agent may spend the cap less 0.15.
    budgets = [HIGH, 0, 0.1, 0.3, 0.48, 0.5, 0.55, 0.6, 0.8, 0.95, 1.1]
    (tmp_path / "script.yaml").write_text(yaml.safe_dump({"steps": [{tool: arguments} for tool, arguments in CALLS]}))
    (tmp_path / "prices.csv").write_text(PRICES)
    ran = ab(
        *("run", "--suite", "tiny", "--tasks-dir", make_tasks(tmp_path / "tasks", budgets), "--agent", "scripted"),
        *(
            "--script",
            tmp_path / "script.yaml",
            "--prices",
            tmp_path / "prices.csv",
            "--out",
            tmp_path / "out",
            "--json",
        ),
    )
    endings = run_and_compare(ab, ran, budgets)
    assert {"cost_cap False", "dominance False", "cost_cap True", "agent_stopped True"} == set(endings)


@pytest.fixture
def service() -> Iterator[str]:
    """A model that makes the calls one after the other, whichever attempt asks."""

    def answer(handler: Handler, body: dict[str, Any]) -> None:
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        message = {}
        if turn < len(CALLS):
            name, arguments = CALLS[turn]
            call = {
                "id": f"c{turn}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            message = {"tool_calls": [call]}
        handler.whole(json.dumps(answer_body("Done.", **message)).encode())

    server = Server(answer)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield server.url
    server.shutdown()
    server.server_close()


@pytest.mark.req("A-09a", "A-09b", "G-18")
def test_rescore_of_model_and_tool_costs_matches_real_runs(ab: Ab, tmp_path: Path, service: str) -> None:
    # Each turn costs 0.15: a request for 0.05 and a call for 0.1.
    budgets = [HIGH, 0, 0.1, 0.2, 0.4, 0.62, 0.7, 0.75, 0.8, 1.2, 2.0]
    (tmp_path / "prices.csv").write_text(PRICES)
    ran = ab(
        *("run", "--suite", "tiny", "--tasks-dir", make_tasks(tmp_path / "tasks", budgets), "--agent", "llm_v0"),
        *("--model", "url:loop", "--prices", tmp_path / "prices.csv", "--out", tmp_path / "out", "--json"),
        env={"AB_MODEL_BASE_URL": service},
    )
    endings = run_and_compare(ab, ran, budgets)
    assert {"cost_cap False", "cost_cap True", "agent_stopped True"} <= set(endings)


@pytest.mark.req("A-09b")
def test_ungraded_intermediate_patch_is_unknown(ab: Ab, tmp_path: Path) -> None:
    wrong = PATCH.replace("+42", "+43")
    right = PATCH.replace("-41", "-43")
    steps = [{"apply_patch": {"unified_diff": wrong}}, {"apply_patch": {"unified_diff": right}}]
    (tmp_path / "script.yaml").write_text(yaml.safe_dump({"steps": steps}))
    (tmp_path / "caps.yaml").write_text("tool_calls: 1\n")
    task = make_task(tmp_path / "task")
    ran = ab.run_task(task, "--agent", "scripted", "--script", tmp_path / "script.yaml")
    assert ran.record["result"]["passed"]
    rescored = ab("rescore", ran.json["run_dir"], "--caps", tmp_path / "caps.yaml", "--json").json
    (attempt,) = rescored["attempts"]
    assert attempt["counterfactual_passed"] is None
    assert attempt["why"].endswith("the patch at that point was not graded")
