"""Escape untrusted text for every output format: terminal, Markdown, CSV, XML."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote

from agentbench.core.text import printable

MAX_LENGTH = 300
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "|", "%")
"""First characters that make a spreadsheet evaluate a cell."""

Cell = str | int | float | bool | None


def plain(text: str, max_length: int = MAX_LENGTH) -> str:
    """Return one printable line for a terminal."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= max_length else line[: max_length - 1] + "…"


def output_line(line: str, max_length: int = MAX_LENGTH) -> str:
    """Return a line of a program's output for a terminal, with its indentation."""
    shown = printable(line.expandtabs(4).rstrip())
    return shown if len(shown) <= max_length else shown[: max_length - 1] + "…"


def code(text: str, max_length: int = MAX_LENGTH) -> str:
    """Return a Markdown code span that no markup, HTML, link or table cell can break out of."""
    inner = plain(text, max_length).replace("`", "'").replace("|", "\\|")
    return f"`{inner}`" if inner.strip() else ""


def link(label: str, path: str, folder: str = "") -> str:
    """Return a Markdown link to `path` in `folder`. A path that leads outside the folder is shown but not linked."""
    if path.startswith("/") or ":" in path or ".." in path.split("/"):
        return f"{code(label)} {code(path)}"
    return f"[{code(label)}]({quote(f'{folder}/{path}' if folder else path)})"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a Markdown table. Cells must already be escaped."""
    lines = [f"| {' | '.join(head)} |", f"|{'|'.join('---' for _ in head)}|"]
    return lines + [f"| {' | '.join(row)} |" for row in rows]


def csv_text(head: Sequence[str], rows: Iterable[Mapping[str, Cell]]) -> str:
    """Return CSV with an apostrophe before any text that a spreadsheet would evaluate as a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    for row in rows:
        writer.writerow([_cell(row.get(name)) for name in head])
    return out.getvalue()


def _cell(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return repr(value)
    text = printable(value)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


def attribute(text: str) -> str:
    """Return a quoted XML attribute value."""
    from xml.sax.saxutils import quoteattr  # noqa: PLC0415 - imports HTTP and TLS

    return quoteattr(printable(text))


def columns(rows: Sequence[Sequence[str]], indent: str = "") -> list[str]:
    """Align columns for a terminal. Cells must already be escaped."""
    widths = [
        max((len(row[index]) for row in rows if index < len(row)), default=0)
        for index in range(max(map(len, rows), default=0))
    ]
    return [(indent + "  ".join(cell.ljust(widths[index]) for index, cell in enumerate(row))).rstrip() for row in rows]
