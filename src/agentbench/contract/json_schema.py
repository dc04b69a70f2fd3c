"""JSON Schemas of the files that users write, for editors.

A schema describes keys, types and limits. Rules that relate several keys are checked when a file is read.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

DRAFT = "https://json-schema.org/draft/2020-12/schema"
TASK_SCHEMA = "task.schema.json"
SCENARIO_SCHEMA = "scenario.schema.json"
TASK_MODELINE = f"# yaml-language-server: $schema=../{TASK_SCHEMA}\n"
"""First line of a `task.yaml`: editors find its schema in the folder of the suite."""
SCENARIO_MODELINE = f"# yaml-language-server: $schema={SCENARIO_SCHEMA}\n"


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a model, with the docstrings of its fields as descriptions."""
    schema = model.model_json_schema()
    documented = {candidate.__name__: candidate for candidate in _models(model)}
    for name, part in [(model.__name__, schema), *schema.get("$defs", {}).items()]:
        docs = _field_docs(documented[name]) if name in documented else {}
        for key, value in part.get("properties", {}).items():
            if docs.get(key):
                value["description"] = docs[key]
    return {"$schema": DRAFT, **schema}


def schema_text(model: type[BaseModel]) -> str:
    return json.dumps(json_schema(model), indent=2, ensure_ascii=False) + "\n"


def write_suite_schemas(folder: Path) -> None:
    """Write the schemas that the first lines of generated files name into the folder of a suite."""
    from agentbench.contract.schema import Scenario, Task  # noqa: PLC0415 - this module serves models of other packages too

    for name, model in ((TASK_SCHEMA, Task), (SCENARIO_SCHEMA, Scenario)):
        text = schema_text(model)
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _models(model: type[BaseModel]) -> list[type[BaseModel]]:
    """Return every model in the module of this one, which has those that it consists of."""
    module = sys.modules[model.__module__]
    members = (value for value in vars(module).values() if isinstance(value, type) and issubclass(value, BaseModel))
    return [model, *members]


def _field_docs(model: type[BaseModel]) -> dict[str, str]:
    """Read the docstrings of fields from the source, because models do not keep them."""
    docs: dict[str, str] = {}
    name = ""
    for statement in _class_bodies(model.__module__).get(model.__name__, ()):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
        elif name and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            docs[name] = " ".join(str(statement.value.value).split())
        else:
            name = ""
    return docs


@cache
def _class_bodies(module: str) -> dict[str, list[ast.stmt]]:
    statements = ast.parse(inspect.getsource(sys.modules[module])).body
    return {statement.name: statement.body for statement in statements if isinstance(statement, ast.ClassDef)}
