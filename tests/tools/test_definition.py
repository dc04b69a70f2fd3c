"""One definition provides the validation and the schema of a tool."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from agentbench.tools.registry import TOOLS
from agentbench.tools.result import ToolError, ToolResult

pytestmark = [pytest.mark.req("T-01"), pytest.mark.component]


def test_tools_take_the_documented_arguments() -> None:
    assert {name: list(tool.arguments.model_fields) for name, tool in TOOLS.items()} == {
        "list_files": ["root", "glob"],
        "read_file": ["path", "start_line", "end_line"],
        "search": ["query", "glob", "max_results"],
        "apply_patch": ["unified_diff"],
        "run": ["command", "timeout_sec", "env"],
        "request_stage": ["stage", "reason"],
    }


@pytest.mark.parametrize("name", list(TOOLS))
def test_every_tool_is_registered_and_described(name: str) -> None:
    schema = TOOLS[name].schema()
    assert schema["name"] == name
    assert schema["description"]
    parameters = schema["parameters"]
    assert isinstance(parameters, dict)
    assert parameters["type"] == "object"
    assert parameters["additionalProperties"] is False
    properties = parameters["properties"]
    assert isinstance(properties, dict)
    for field in properties.values():
        assert isinstance(field, dict)
        assert field["description"]
        assert "title" not in field


def test_schema_marks_required_arguments() -> None:
    required = {name: tool.schema()["parameters"].get("required", []) for name, tool in TOOLS.items()}  # type: ignore[union-attr]
    assert required == {
        "list_files": [],
        "read_file": ["path"],
        "search": ["query"],
        "apply_patch": ["unified_diff"],
        "run": ["command"],
        "request_stage": ["stage", "reason"],
    }


def test_result_is_ok_iff_it_has_no_error() -> None:
    with pytest.raises(ValueError, match="if and only if"):
        ToolResult(ok=True, error_type=ToolError.TIMEOUT)
    with pytest.raises(ValueError, match="if and only if"):
        ToolResult(ok=False)


def test_result_as_json_omits_empty_fields() -> None:
    expected: dict[str, JsonValue] = {"ok": True, "stdout": "", "exit_code": 0}
    assert ToolResult(ok=True, exit_code=0).as_json() == expected
    refused = ToolResult.refused(ToolError.NOT_FOUND, "no").as_json()
    assert refused == {"ok": False, "stdout": "", "error_type": "not_found", "error_message": "no"}
