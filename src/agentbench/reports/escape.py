"""Hostile text made harmless, once for each format it is shown in."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from agentbench.core.text import printable

LONGEST = 300
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "|", "%")
"""First characters that make a spreadsheet compute a cell."""

Cell = str | int | float | bool | None


def plain(text: str, longest: int = LONGEST) -> str:
    """One line for a terminal."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= longest else line[: longest - 1] + "…"


def code(text: str, longest: int = LONGEST) -> str:
    """A Markdown code span: no markup, HTML, link or table cell begins or ends inside it."""
    inner = plain(text, longest).replace("`", "'").replace("|", "\\|")
    return f"`{inner}`" if inner.strip() else ""


def link(label: str, path: str, folder: str = "") -> str:
    """A Markdown link to `path` in `folder`. `path` comes from a record: one that could lead elsewhere is only shown."""
    if path.startswith("/") or ":" in path or ".." in path.split("/"):
        return f"{code(label)} {code(path)}"
    return f"[{code(label)}]({quote(f'{folder}/{path}' if folder else path)})"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table. Cells must be escaped already; heads are ours."""
    lines = [f"| {' | '.join(head)} |", f"|{'|'.join('---' for _ in head)}|"]
    return lines + [f"| {' | '.join(row)} |" for row in rows]


def csv_text(head: Sequence[str], rows: Iterable[Mapping[str, Cell]]) -> str:
    """CSV that no spreadsheet computes: a text that begins like a formula is led by an apostrophe."""
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
    """A quoted XML attribute value."""
    return quoteattr(printable(text))


def columns(rows: Sequence[Sequence[str]], indent: str = "") -> list[str]:
    """Aligned columns for a terminal. Cells must be escaped already."""
    widths = [
        max((len(row[index]) for row in rows if index < len(row)), default=0)
        for index in range(max(map(len, rows), default=0))
    ]
    return [(indent + "  ".join(cell.ljust(widths[index]) for index, cell in enumerate(row))).rstrip() for row in rows]
