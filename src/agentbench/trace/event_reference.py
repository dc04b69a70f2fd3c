"""Generates the event reference of the docs from the models.

`python -m agentbench.trace.event_reference docs/explanation/evidence.md` writes it into the page, between two markers.
"""

from __future__ import annotations

import ast
import inspect
import sys
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from agentbench.trace import events
from agentbench.trace.events import ATTEMPT_EVENTS, RUN_EVENTS, Excerpt, FileDigest, GateResult, Payload

BEGIN = "<!-- event reference: drawn from the models by `python -m agentbench.trace.event_reference docs/explanation/evidence.md` -->"
END = "<!-- end of the event reference -->"
PARTS: tuple[type[BaseModel], ...] = (Excerpt, FileDigest, GateResult)


@dataclass(slots=True)
class _Source:
    """Type annotations and docstrings of a model's fields, from its source."""

    types: dict[str, str] = field(default_factory=dict)
    meanings: dict[str, str] = field(default_factory=dict)


def render() -> str:
    """Render the reference as Markdown."""
    sources = _read(events)
    chapters = [
        "### Events of an attempt",
        *(_chapter(model, f"`{model.type}`", sources) for model in ATTEMPT_EVENTS),
        "### Events of a run",
        *(_chapter(model, f"`{model.type}`", sources) for model in RUN_EVENTS),
        "### Parts of payloads",
        *(_chapter(model, model.__name__, sources) for model in PARTS),
    ]
    return "\n\n".join(chapters)


def put_into(page: str) -> str:
    """Return `page` with the reference between its markers."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{render()}\n\n{END}{after}"


def _chapter(model: type[BaseModel], title: str, sources: dict[str, _Source]) -> str:
    rows = ["| member | type | |", "|---|---|---|"]
    for name, info in model.model_fields.items():
        kind = meaning = ""
        for ancestor in model.__mro__:
            source = sources.get(ancestor.__name__, _Source())
            kind = kind or source.types.get(name, "")
            meaning = meaning or source.meanings.get(name, "")
        if info.default is not PydanticUndefined:
            meaning = f"{meaning} Default {_default(info.default)}.".strip()
        rows.append(f"| `{name}` | `{_cell(kind)}` | {_cell(meaning)} |")
    about = inspect.cleandoc(model.__doc__ or "") if model.__doc__ and model.__doc__ != Payload.__doc__ else ""
    return "\n\n".join(part for part in (f"#### {title}", about, "\n".join(rows)) if part)


def _default(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else f"`{str(value) or 'empty'}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _read(module: object) -> dict[str, _Source]:
    """Read field types and docstrings from the source of a module."""
    tree = ast.parse(Path(str(inspect.getsourcefile(module))).read_text(encoding="utf-8"))  # type: ignore[arg-type]
    found: dict[str, _Source] = {}
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        source = found.setdefault(node.name, _Source())
        last = ""
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                last = statement.target.id
                source.types[last] = ast.unparse(statement.annotation)
            elif last and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                source.meanings[last] = str(statement.value.value)
            else:
                last = ""
    return found


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(put_into(target.read_text(encoding="utf-8")), encoding="utf-8")
