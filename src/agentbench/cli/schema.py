"""`ab schema`: print the JSON Schema of a file that users write."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import FILE, json_option

if TYPE_CHECKING:
    from pydantic import BaseModel

# Name → (module, model, file). Kept as data so that listing them imports none of them.
SCHEMAS: dict[str, tuple[str, str, str]] = {
    "task": ("agentbench.contract.schema", "Task", "task.yaml"),
    "scenario": ("agentbench.contract.schema", "Scenario", "scenario.yaml of a suite"),
    "variant": ("agentbench.execution.variant_file", "VariantFile", "configs/variants/NAME.yaml"),
    "gate": ("agentbench.reports.gate", "GateFile", "file of `ab report paired --gate`"),
    "pilot": ("agentbench.pilot.design.pilot_file", "PilotFile", "pilot.yaml of a pilot"),
    "retention": ("agentbench.record.retention_policy", "RetentionPolicy", "file of `ab retain --policy`"),
    "trust": ("agentbench.signing.trust", "TrustFile", "file of `ab verify --signed-by`"),
    "weights": ("agentbench.contract.schema", "Weights", "file of `ab rescore --weights`"),
    "model-script": ("agentbench.models.scripted", "ModelScript", "file of `--model scripted:FILE`"),
}

EPILOG = """\b
Examples:
  ab schema
  ab schema task --out task.schema.json

An editor with a YAML language server uses a schema that the first line of a file names:

\b
  # yaml-language-server: $schema=../task.schema.json

`ab init` and `ab task new`, `from-commit`, `harvest` and `import swebench` write this line, and the schemas into the
folder of the suite.
"""


@click.command(epilog=EPILOG)
@click.argument("name", type=click.Choice(list(SCHEMAS)), required=False)
@click.option("--out", type=FILE, help="Write the schema to this file.")
@json_option
def command(name: str | None, *, out: Path | None, as_json: bool) -> None:
    """Print the JSON Schema of a file that you write. Without NAME, list the schemas."""
    import json

    if name is None:
        if out is not None:
            raise click.UsageError("--out needs the name of a schema.")
        if as_json:
            click.echo(json.dumps({"schemas": [{"name": key, "file": entry[2]} for key, entry in SCHEMAS.items()]}))
            return
        width = max(map(len, SCHEMAS))
        for key, entry in SCHEMAS.items():
            click.echo(f"{key.ljust(width)}  {entry[2]}")
        return
    from agentbench.contract.json_schema import schema_text
    from agentbench.core.errors import InputError

    text = schema_text(schema_model(name))
    if out is None:
        click.echo(text, nl=False)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror}") from None
    click.echo(str(out))


def schema_model(name: str) -> type[BaseModel]:
    """Return the model that reads a file."""
    module, class_name, _ = SCHEMAS[name]
    model: type[BaseModel] = getattr(importlib.import_module(module), class_name)
    return model
