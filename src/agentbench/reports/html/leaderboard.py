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
{rejected}
</main>
</body>
</html>
"""


def leaderboard_page(board: Leaderboard) -> str:
    """Render the leaderboard. Names come from others, so every one is escaped."""
    style = files("agentbench.reports.html").joinpath("assets/page.css").read_text(encoding="utf-8")
    rows = "\n".join(f"<tr>{_cells('td', cells(entry))}</tr>" for entry in board.entries)
    listed = "\n".join(f"<li><code>{_text(one.given)}</code>: {_text(one.why)}</li>" for one in board.rejected)
    return PAGE.format(
        style=style,
        headline=_text(board.headline()),
        caption=_text(explanation(board)) if board.entries else "",
        head=_cells("th", HEAD),
        rows=rows,
        rejected=f"<h2>Rejected runs</h2><ul>{listed}</ul>" if board.rejected else "",
    )


def _cells(tag: str, values: tuple[str, ...]) -> str:
    return "".join(f"<{tag}>{_text(value)}</{tag}>" for value in values)


def _text(value: str) -> str:
    return html.escape(printable(value))
