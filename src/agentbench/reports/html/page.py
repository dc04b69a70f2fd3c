"""Write the report: `index.html`, and `data/` with a side file per attempt and per part of its trace."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from agentbench.core.canonical import Json
from agentbench.core.errors import InputError, RecordError
from agentbench.record.schema import AttemptRecord
from agentbench.reports.html.bounded import ByteBudget
from agentbench.reports.html.data import attempt_row, page_json
from agentbench.reports.html.detail import Trace, detail, review_json, trace_parts
from agentbench.reports.record_rows import Row
from agentbench.reports.sources import Run
from agentbench.reports.summary import summarise

if TYPE_CHECKING:
    from agentbench.reports.compare import CompareReport
    from agentbench.reports.gate import GateVerdict
    from agentbench.reports.paired import PairedReport

PAGE = "index.html"
SIDE = "data"
MARKER = "agentbench-report.txt"
SCRIPTS = ("dom.js", "figures.js", "source.js", "views.js", "syntax.js", "attempt.js", "replay.js", "trace.js")
START = "app.js"
"""The last script: it starts the page."""
MAX_ATTEMPTS = 50_000
ROW_BYTES = 14_000_000
"""Limit for the rows of attempts; with reviews and flips the page stays below 20 MB."""
REVIEW_BYTES = 2_000_000
SINGLE_EVENTS = 20_000_000
"""Limit for the events on a page of one attempt."""


def write_page(
    folder: Path,
    runs: Sequence[Run],
    *,
    comparison: PairedReport | CompareReport | None = None,
    gate: GateVerdict | None = None,
) -> Path:
    """Write the report of some runs and their comparison into `folder`. Returns the path of the page.

    Raises:
        InputError: the folder cannot be created, or has files that are not a report.
        RecordError: the report cannot be written.
    """
    _prepare(folder)

    def write_attempt(position: int, record: AttemptRecord, run: Run) -> None:
        _write_attempt(folder / SIDE, position, record, run)

    try:
        data = page_data(runs, comparison=comparison, gate=gate, visit=write_attempt)
        (folder / PAGE).write_text(render(data), encoding="utf-8")
    except OSError as error:
        raise RecordError.of("write", folder, error) from error
    return folder / PAGE


def page_data(
    runs: Sequence[Run],
    *,
    comparison: PairedReport | CompareReport | None = None,
    gate: GateVerdict | None = None,
    visit: Callable[[int, AttemptRecord, Run], None] = lambda _position, _record, _run: None,
    max_attempts: int = MAX_ATTEMPTS,
) -> dict[str, Json]:
    """Return the data of a page: runs, attempts, comparison. `visit` is called with the position of each attempt."""
    runs = [run.with_signed_evidence() for run in runs]
    summaries = [summarise(run) for run in runs]
    max_rows = max_attempts // max(1, len(runs))
    attempts: list[list[Json]] = []
    reviews: dict[str, Json] = {}
    index: dict[tuple[str, str], int] = {}
    review_budget = ByteBudget(REVIEW_BYTES)
    for number, summary in enumerate(summaries):
        row_budget = ByteBudget(ROW_BYTES // len(runs))
        truths = {review.attempt_id: review.agreement for review in summary.reviews}
        # Attempts that did not pass come first, in case not all fit.
        ordered = sorted(summary.run.rows, key=lambda row: (row.passed, row.task, row.repeat))[:max_rows]
        for row, record in zip(ordered, summary.run.records(ordered), strict=True):
            position, line = len(attempts), attempt_row(number, summary.run, row, record, truths.get(row.attempt_id))
            if not row_budget.fits(line):
                break
            visit(position, record, summary.run)
            attempts.append(line)
            index[str(summary.run.path), row.attempt_id] = position
            if row.needs_review and review_budget.fits(review := review_json(record, summary.run.path)):
                reviews[str(position)] = review
    compared: dict[str, Json] = {}
    if comparison is not None:
        from agentbench.reports.html.comparison import compared_json  # noqa: PLC0415 - needs numpy

        compared = compared_json(comparison, runs, index)
    data = page_json(summaries, attempts, reviews, compared.get("comparison"), gate)
    data["methods"] = compared.get("methods")
    data["omitted"] = sum(len(run.rows) for run in runs) - len(attempts)
    return data


def export_attempt(run: Run, row: Row) -> str:
    """Return one attempt as a self-contained page with its record, diff and trace."""
    (record,) = run.records([row])
    events: list[Json] = []
    size, trace = 0, Trace()
    for text in trace_parts(record, run.path, trace):
        size += len(text)
        if size > SINGLE_EVENTS:
            trace.note = "Only the beginning of the trace is shown; the run directory has all of it."
            break
        events += json.loads(text)
    trace.events = len(events)
    attempt = detail(record, run, trace)
    counts = attempt["trace"]
    if isinstance(counts, dict):
        counts["inline"] = events
    # Without the plan, the other attempts of the run do not count as missing.
    summary = summarise(replace(run, rows=(row,), superseded=0, superseded_cost={}, meta={**run.meta, "order": None}))
    truth = next((review.agreement for review in summary.reviews), None)
    data = page_json([summary], [attempt_row(0, run, row, record, truth)], {}, None, None)
    return render({**data, "single": attempt}, self_contained=True)


def render(data: Mapping[str, Json], *, self_contained: bool = False) -> str:
    """Render the page. Its policy allows only the script and style with these digests."""
    script = "\n".join(asset(name) for name in (*SCRIPTS, START))
    # Side files are scripts loaded by the page's script; a self-contained page loads none.
    return _filled(data, script, _policy(script, "" if self_contained else " 'strict-dynamic'"))


def render_live(data: Mapping[str, Json], live_script: str) -> tuple[str, str]:
    """Render the page of a server, whose data comes over HTTP. Returns the page and its policy."""
    script = "\n".join([*(asset(name) for name in SCRIPTS), live_script, asset(START)])
    policy = f"{_policy(script)}; connect-src 'self'"
    return _filled(data, script, policy), f"{policy}; frame-ancestors 'none'"


def _policy(script: str, loading: str = "") -> str:
    return (
        f"default-src 'none'; script-src '{policy_digest(script)}'{loading}; style-src '{policy_digest(asset('page.css'))}'; "
        "img-src data:; base-uri 'none'; form-action 'none'; object-src 'none'"
    )


def _filled(data: Mapping[str, Json], script: str, policy: str) -> str:
    parts = {
        "POLICY": html.escape(policy, quote=True).replace("&#x27;", "'"),
        "TITLE": html.escape(str(data["title"])),
        "STYLE": asset("page.css"),
        "DATA": embedded(data),
        "SCRIPT": script,
    }
    # A single pass, so that inserted text is never taken for a placeholder.
    return re.sub("@([A-Z]+)@", lambda match: parts[match[1]], asset("index.html"))


def embedded(value: object) -> str:
    """Return JSON that is safe inside a `<script>`: no tag or comment can begin in it."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def side_file(key: str, text: str) -> str:
    """Return a script that registers JSON under a key. The JSON is a string, so none of it is JavaScript."""
    return f'AB.put("{key}",{embedded(text)});\n'


def _write_attempt(folder: Path, position: int, record: AttemptRecord, run: Run) -> None:
    trace = Trace()
    for number, text in enumerate(trace_parts(record, run.path, trace)):
        (folder / f"t{position}-{number}.js").write_text(side_file(f"t{position}-{number}", text), encoding="utf-8")
    text = json.dumps(detail(record, run, trace), allow_nan=False, separators=(",", ":"))
    (folder / f"a{position}.js").write_text(side_file(f"a{position}", text), encoding="utf-8")


def _prepare(folder: Path) -> None:
    """Create the folder, or clear the earlier report in it."""
    try:
        if folder.is_dir() and any(folder.iterdir()) and not (folder / MARKER).is_file():
            raise InputError(f"{folder} is not empty and is not a report", remedy="choose another folder with --out")
        shutil.rmtree(folder / SIDE, ignore_errors=True)
        (folder / SIDE).mkdir(parents=True)
        (folder / MARKER).write_text(
            "Written by `ab report`. Open index.html. This folder can be deleted.\n", encoding="utf-8"
        )
    except OSError as error:
        msg = f"cannot write the report to {folder}: {error.strerror or error}"
        raise InputError(msg, remedy="choose another folder with --out") from error


def asset(name: str) -> str:
    """Return a file that pages contain."""
    return files("agentbench.reports.html").joinpath("assets", name).read_text(encoding="utf-8")


def policy_digest(text: str) -> str:
    """Return the digest by which a content security policy allows a script or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
