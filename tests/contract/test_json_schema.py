"""`ab schema` describes the files that users write; every file of this repository validates against its schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from agentbench.cli.schema import SCHEMAS, command, schema_model
from agentbench.contract.json_schema import TASK_MODELINE, json_schema
from agentbench.contract.suite import DEMO, suite_folder
from agentbench.contract.templates import NewTask, new_suite, new_task
from tests.contract.json_schema_validator import problems

ROOT = Path(__file__).parents[2]
FILES = {
    "task": [*suite_folder(DEMO, ROOT).glob("*/task.yaml"), *(ROOT / "tasks").glob("*/*/task.yaml")],
    "scenario": [ROOT / "docs/examples/scenario.yaml", *(ROOT / "tasks").glob("*/scenario.yaml")],
    "variant": [*(ROOT / "configs/variants").glob("*.yaml")],
    "gate": [ROOT / "docs/examples/gate.yaml"],
}


def found(name: str, value: Any) -> list[str]:
    schema = json_schema(schema_model(name))
    return list(problems(value, schema, schema))


@pytest.mark.parametrize("name", list(FILES))
def test_files_of_this_repository_validate(name: str) -> None:
    assert FILES[name]
    for file in FILES[name]:
        assert found(name, yaml.safe_load(file.read_text(encoding="utf-8"))) == [], file


@pytest.mark.parametrize(
    "name, value, problem",
    [
        ("task", {"id": "a", "suite": "b", "repo": "none", "statment": "x"}, "file.statment"),
        ("task", {"id": "a b", "suite": "b", "repo": "none"}, "file.id: pattern"),
        ("task", {"id": "a", "repo": "none"}, "required"),
        ("task", {"id": "a", "suite": "b", "repo": "none", "strata": {"kind": "fix"}}, "file.strata.kind"),
        ("gate", {"rate": "speed"}, "file.rate"),
        ("gate", {"max_drop": 2}, "file.max_drop"),
        ("variant", {"agent": "noop"}, "required"),
        ("scenario", {"weights": {"minimal": "heavy"}}, "file.weights.minimal"),
    ],
)
def test_mistakes_break_the_schema(name: str, value: dict[str, object], problem: str) -> None:
    assert any(problem in text for text in found(name, value)), found(name, value)


def test_keys_of_task_yaml_are_described() -> None:
    schema = json_schema(schema_model("task"))
    assert schema["properties"]["statement_file"]["description"]
    assert schema["$defs"]["Check"]["properties"]["timeout_sec"]["description"]


def test_new_tasks_name_their_schema(tmp_path: Path) -> None:
    suite = tmp_path / "mine"
    loaded = new_suite(suite)
    other = new_task(tmp_path / "other" / "bug", NewTask(url="https://example.org/x.git", commit="0" * 40))
    for task in (loaded, other):
        assert task.text.startswith(TASK_MODELINE)
        schema = json.loads((task.folder / ".." / "task.schema.json").read_text())
        assert list(problems(yaml.safe_load(task.text), schema, schema)) == []
    first, *_ = (suite / "scenario.yaml").read_text().splitlines()
    assert (suite / first.partition("$schema=")[2]).is_file()


def test_schema_command_lists_prints_and_writes(tmp_path: Path) -> None:
    listing = CliRunner().invoke(command, []).output
    assert [line.split()[0] for line in listing.splitlines()] == list(SCHEMAS)
    for name in SCHEMAS:
        assert json.loads(CliRunner().invoke(command, [name]).output)["type"] == "object"
    file = tmp_path / "task.schema.json"
    CliRunner().invoke(command, ["task", "--out", str(file)])
    assert json.loads(file.read_text())["title"] == "Task"
