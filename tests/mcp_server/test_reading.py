"""`ab mcp` as the official client sees it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_server.conftest import Project, Session, connected

pytestmark = pytest.mark.end_to_end
READING = {
    "list_suites", "list_tasks", "read_task", "list_runs", "read_run", "read_attempt", "compare_runs", "read_trace",
}  # fmt: skip


@pytest.fixture(scope="module")
def session(project: Project) -> Iterator[Session]:
    with connected(project) as session:
        yield session


def run_of(session: Session, variant: str) -> str:
    (name,) = [run["name"] for run in session.call("list_runs")["runs"] if run["variant"] == variant]
    return str(name)


def test_server_is_read_only_by_default(session: Session) -> None:
    tools = session.tools()
    assert set(tools) == READING
    assert all(tool.annotations.read_only_hint for tool in tools.values())
    assert "Unknown tool" in session.error("start_run", suite="tiny", agent="noop")


def test_suites_and_tasks_are_listed(session: Session) -> None:
    suites = {suite["name"]: suite["tasks"] for suite in session.call("list_suites")["suites"]}
    assert suites == {"demo": 6, "tiny": 3}
    assert [task["id"] for task in session.call("list_tasks", suite="tiny")["tasks"]] == ["hidden", "one", "two"]


def test_task_has_neither_hidden_files_nor_its_reference(session: Session) -> None:
    task = session.call("read_task", suite="tiny", task="hidden")
    assert task["statement"].startswith("The file answer.txt must say 42.")
    (check,) = task["checks"]
    assert check["command"] == "grep -qx 42 answer.txt"
    text = json.dumps(task)
    assert "hidden-content" not in text
    assert "test_secret" not in text
    assert "reference" not in text


def test_statement_is_marked_as_data_and_hidden_characters_are_visible(session: Session) -> None:
    task = session.call("read_task", suite="tiny", task="hidden")
    assert "not instructions" in task["note"]
    assert "\\u202e" in task["statement"]
    assert "\u202e" not in task["statement"]


def test_runs_have_counts_and_no_paths(session: Session, project: Project) -> None:
    listed = session.call("list_runs", limit=2)
    assert listed["total"] == 3
    assert listed["next_offset"] == 2
    assert str(project.folder) not in json.dumps(session.call("list_runs"))


def test_run_is_read_in_pages_of_attempts(session: Session) -> None:
    run = run_of(session, "reference")
    first = session.call("read_run", run=run, limit=2)
    assert first["headline"].startswith("3 of 3")
    assert first["summary"]["rates"]["contract"]["count"] == 3
    second = session.call("read_run", run=run, limit=2, offset=first["next_offset"])
    assert second["next_offset"] is None
    assert len({attempt["attempt_id"] for attempt in first["attempts"] + second["attempts"]}) == 3


def test_attempt_is_found_by_task_and_by_id(session: Session) -> None:
    by_task = session.call("read_attempt", run=run_of(session, "noop"), attempt="one")
    record = by_task["record"]
    assert record["result"]["failure_reason"] == "TESTS_FAILED"
    assert by_task["headline"].startswith("FAIL TESTS_FAILED")
    by_id = session.call("read_attempt", run=run_of(session, "noop"), attempt=record["attempt_id"])
    assert by_id["record"] == record


def test_comparison_has_decision_and_differing_tasks(session: Session) -> None:
    compared = session.call("compare_runs", a=run_of(session, "noop"), b=run_of(session, "reference"))
    assert compared["difference"] == 1.0
    assert compared["headline"].startswith("INCONCLUSIVE")
    assert sorted(compared["differing_tasks"]) == ["hidden", "one", "two"]


def test_trace_is_read_in_pages(session: Session) -> None:
    run = run_of(session, "command")
    events: list[Any] = []
    offset: int | None = 0
    while offset is not None:
        page = session.call("read_trace", run=run, attempt="one", limit=7, offset=offset)
        assert len(page["events"]) <= 7
        events += page["events"]
        offset = page["next_offset"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["type"] == "attempt_closed"


def test_agents_output_in_a_trace_is_data(session: Session) -> None:
    page = session.call("read_trace", run=run_of(session, "command"), attempt="one", limit=200)
    (finished,) = [event for event in page["events"] if event["type"] == "tool_call_finished"]
    assert "call start_run" in finished["payload"]["stdout"]["text"]
    assert "\\u202e" in finished["payload"]["stdout"]["text"]
    assert "not instructions" in page["note"]


def test_output_of_checks_and_trace_of_the_reference_are_withheld(session: Session) -> None:
    page = session.call("read_trace", run=run_of(session, "noop"), attempt="one", limit=200)
    (finished,) = [event for event in page["events"] if event["type"] == "tests_finished"]
    assert finished["payload"]["stdout"].startswith("withheld")
    assert "reference solution" in session.error("read_trace", run=run_of(session, "reference"), attempt="one")


@pytest.mark.parametrize("name", ["../secret.txt", "/etc", "runs", "..", "."])
def test_path_is_not_the_name_of_a_run(session: Session, name: str) -> None:
    assert "no run" in session.error("read_run", run=name)


def test_path_is_not_the_name_of_a_suite(session: Session) -> None:
    assert "invalid suite name" in session.error("list_tasks", suite="../tasks/tiny")


def test_link_to_a_run_outside_is_not_served(session: Session, project: Project, tmp_path: Path) -> None:
    shutil.copytree(project.folder / "runs" / run_of(session, "noop"), tmp_path / "elsewhere")
    link = project.folder / "runs" / "linked"
    link.symlink_to(tmp_path / "elsewhere")
    try:
        assert "no run" in session.error("read_run", run="linked")
    finally:
        link.unlink()


def test_task_folder_outside_the_run_is_not_read(session: Session, project: Project) -> None:
    run = project.folder / "runs" / "altered"
    shutil.copytree(project.folder / "runs" / run_of(session, "command"), run)
    records = (run / "attempts.jsonl").read_text().replace('"task_dir":"tasks/one"', '"task_dir":"../../outside"')
    (run / "attempts.jsonl").write_text(records)
    outside = project.folder / "outside"
    outside.mkdir()
    (outside / "events.jsonl").write_text("{}\n")
    try:
        assert "has no events" in session.error("read_trace", run="altered", attempt="one")
    finally:
        shutil.rmtree(run)
        shutil.rmtree(outside)


def test_unknown_names_get_a_suggestion(session: Session) -> None:
    assert "did you mean `hidden`" in session.error("read_task", suite="tiny", task="hiden")
    assert "no attempt or task" in session.error("read_attempt", run="latest", attempt="three")


def test_missing_folder_is_an_error(project: Project) -> None:
    done = project.ab("mcp", "no-such-folder")
    assert done.code == 2
    assert "no-such-folder is not a folder" in done.stderr


def test_invalid_arguments_are_described_in_one_sentence(session: Session) -> None:
    assert session.error("read_attempt", run="latest") == "read_attempt: argument 'attempt' is missing"
    wrong = session.error("list_runs", limit=500, offset=-1)
    assert wrong == (
        "list_runs: argument 'limit': input should be less than or equal to 200; "
        "argument 'offset': input should be greater than or equal to 0"
    )
