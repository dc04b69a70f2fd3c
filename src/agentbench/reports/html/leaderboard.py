"""The leaderboard as one static page without scripts."""

from __future__ import annotations

import html
from importlib.resources import files

from agentbench.core.text import printable
from agentbench.reports.leaderboard import HEAD, Leaderboard, cells, explanation

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Leaderboard</title>
<style>{style}</style>
</head>
<body>
<main style="max-width:1360px;margin:0 auto;padding:24px">
<h1>{headline}</h1>
<div class="scroll"><table><caption>{caption}</caption>
<thead><tr>{head}</tr></thead>
<tbody>{rows}</tbody></table></div>
{lists}
</main>
</body>
</html>
"""


def leaderboard_page(board: Leaderboard) -> str:
    """Render the leaderboard. Names come from others, so every one is escaped."""
    style = files("agentbench.reports.html").joinpath("assets/page.css").read_text(encoding="utf-8")
    rows = "\n".join(f"<tr>{_cells('td', cells(entry))}</tr>" for entry in board.entries)
    lists = [
        _list("Differences between runs", [_text(text) for text in board.differences]),
        _list("Protocol deviations", [_text(text) for text in board.deviations]),
        _list("Rejected runs", [f"<code>{_text(run.given)}</code>: {_text(run.why)}" for run in board.rejected]),
    ]
    return PAGE.format(
        style=style,
        headline=_text(board.headline()),
        caption=_text(explanation(board)) if board.entries else "",
        head=_cells("th", HEAD),
        rows=rows,
        lists="\n".join(lists),
    )


def _list(title: str, items: list[str]) -> str:
    """Return a section with escaped items, or nothing without items."""
    return f"<h2>{title}</h2><ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>" if items else ""


def _cells(tag: str, values: tuple[str, ...]) -> str:
    return "".join(f"<{tag}>{_text(value)}</{tag}>" for value in values)


def _text(value: str) -> str:
    return html.escape(printable(value))
