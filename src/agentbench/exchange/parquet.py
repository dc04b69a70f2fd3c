"""Write the attempts of a run as a Parquet table with the columns of `ab query`, a thousand rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from agentbench.core.canonical import Json
from agentbench.core.errors import InputError
from agentbench.exchange.output_file import output_file
from agentbench.exchange.registry import Written
from agentbench.exchange.source_run import SourceRun
from agentbench.reports.attempt_table import table_row

ROWS = 1000
_COLUMNS = {
    "bool": ("passed", "needs_review"),
    "int64": ("repeat", "tool_calls", "prompt_tokens", "completion_tokens"),
    "float64": ("score", "duration_sec", "wall_sec", "cost", "decoy_coverage"),
}
"""Columns that are not text. Types are stated, because a column may be empty in one batch and not in the next."""


def write(run: SourceRun, out: str) -> Written:
    """
    Raises:
        InputError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415 - optional dependency
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise InputError("pyarrow is not installed", remedy="pip install 'agentbench-harness[tables]'") from None
    rows = (table_row(run.path.name, run.run.meta, record) for record in run.records())
    first = next(rows)
    kinds = {column: kind for kind, columns in _COLUMNS.items() for column in columns}
    schema = pa.schema([(name, pa.type_for_alias(kinds.get(name, "string"))) for name in first])
    written = 0
    with output_file(out) as file:
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for batch in _batches(chain([first], rows)):
                writer.write_table(pa.Table.from_pylist(batch, schema=schema))
                written += len(batch)
        size = file.tell()
    return Written(written, size)


def _batches(rows: Iterator[dict[str, Json]]) -> Iterator[list[dict[str, Json]]]:
    while batch := list(islice(rows, ROWS)):
        yield batch
