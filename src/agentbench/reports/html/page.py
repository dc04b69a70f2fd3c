"""Writing the page: one `index.html` and, beside it, `data/` with a side file per attempt and the parts of its trace."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from agentbench.core.canonical import Json
from agentbench.core.errors import InputError
from agentbench.record.durable import failed
from agentbench.record.schema import AttemptRecord
from agentbench.reports.gate import GateVerdict
from agentbench.reports.html.bounded import Room
from agentbench.reports.html.data import attempt_row, comparison_json, page_json, truths
from agentbench.reports.html.detail import Trace, detail, trace_parts
from agentbench.reports.paired import PairedReport
from agentbench.reports.record_rows import Row
from agentbench.reports.sources import Run
from agentbench.reports.summary import summarise

PAGE = "index.html"
SIDE = "data"
MARKER = "agentbench-report.txt"
SCRIPTS = ("dom.js", "figures.js", "views.js", "attempt.js", "trace.js", "app.js")
MOST_ATTEMPTS = 50_000
ROW_BYTES = 14_000_000
"""Rows of attempts on one page; with reviews and flips it stays below 20 MB whatever the records say."""
REVIEW_BYTES = 2_000_000
SINGLE_EVENTS = 20_000_000
"""Bytes of events that a page of one attempt carries."""


def write_page(
    folder: Path,
    runs: Sequence[Run],
    *,
    comparison: PairedReport | None = None,
    gate: GateVerdict | None = None,
) -> Path:
    """Write the report of some runs, and their comparison if there is one, into `folder`; the page.

    Raises:
        InputError: the folder holds something that is no report, or cannot be made.
        RecordError: it could not be written.
    """
    _prepare(folder)
    summaries = [summarise(run) for run in runs]
    most = MOST_ATTEMPTS // max(1, len(runs))
    attempts: list[list[Json]] = []
    reviews: dict[str, Json] = {}
    index: dict[tuple[str, str], int] = {}
    room = Room(REVIEW_BYTES)
    try:
        for number, one in enumerate(summaries):
            rows = Room(ROW_BYTES // len(runs))
            known = truths(one.adjudications)
            # Those that did not pass first: a page has a bound, and they are what people look for.
            ordered = sorted(one.run.rows, key=lambda row: (row.passed, row.task, row.repeat))[:most]
            for row, record in zip(ordered, one.run.records(ordered), strict=True):
                place, line = len(attempts), attempt_row(number, row, record, known.get(row.attempt_id))
                if not rows.takes(line):
                    break
                told = _write_attempt(folder / SIDE, place, record, one.run.path)
                attempts.append(line)
                index[str(one.run.path), row.attempt_id] = place
                if row.needs_review and room.takes(told["review"]):
                    reviews[str(place)] = told["review"]
        compared = comparison_json(comparison, index) if comparison else None
        data = page_json(summaries, attempts, reviews, compared, gate)
        data["omitted"] = sum(len(run.rows) for run in runs) - len(attempts)
        (folder / PAGE).write_text(render(data), encoding="utf-8")
    except OSError as error:
        raise failed("write", folder, error) from error
    return folder / PAGE


def export_attempt(run: Run, row: Row) -> str:
    """One attempt as one self-contained page: record, diff and trace in the file itself."""
    (record,) = run.records([row])
    events: list[Json] = []
    size, seen = 0, Trace()
    for text in trace_parts(record, run.path, seen):
        size += len(text)
        if size > SINGLE_EVENTS:
            seen.note = "The beginning of the trace: the whole is in the run directory."
            break
        events += json.loads(text)
    seen.events = len(events)
    told = detail(record, run.path, seen)
    trace = told["trace"]
    if isinstance(trace, dict):
        trace["inline"] = events
    summary = summarise(Run(run.path, run.run_id, run.suite, (row,), 0))
    data = page_json(
        [summary], [attempt_row(0, row, record, truths(summary.adjudications).get(row.attempt_id))], {}, None, None
    )
    return render({**data, "single": told}, alone=True)


def render(data: Mapping[str, Json], *, alone: bool = False) -> str:
    """The page around its data. Script and style are named by digest in its policy: nothing else runs or loads."""
    style, script = _asset("page.css"), "\n".join(_asset(name) for name in SCRIPTS)
    # Side files are scripts that our script asks for; a page of one attempt asks for none.
    loading = "" if alone else " 'strict-dynamic'"
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'{loading}; style-src '{_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'; object-src 'none'"
    )
    parts = {
        "POLICY": html.escape(policy, quote=True).replace("&#x27;", "'"),
        "TITLE": html.escape(str(data["title"])),
        "STYLE": style,
        "DATA": embedded(data),
        "SCRIPT": script,
    }
    # One pass: nothing that is filled in can be taken for a place to fill.
    return re.sub("@([A-Z]+)@", lambda found: parts[found[1]], _asset("index.html"))


def embedded(value: object) -> str:
    """JSON that can stand inside a `<script>`: no tag or comment begins in it, whatever its strings hold."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def side_file(key: str, text: str) -> str:
    """A side file: a script that hands over one JSON text under its key. JSON as a string: no key of it is JavaScript."""
    return f'AB.put("{key}",{embedded(text)});\n'


def _write_attempt(folder: Path, place: int, record: AttemptRecord, run: Path) -> Mapping[str, Json]:
    seen = Trace()
    for number, text in enumerate(trace_parts(record, run, seen)):
        (folder / f"t{place}-{number}.js").write_text(side_file(f"t{place}-{number}", text), encoding="utf-8")
    told = detail(record, run, seen)
    text = json.dumps(told, allow_nan=False, separators=(",", ":"))
    (folder / f"a{place}.js").write_text(side_file(f"a{place}", text), encoding="utf-8")
    return told


def _prepare(folder: Path) -> None:
    """A folder for a report: new, empty, or one of an earlier report, which is replaced."""
    try:
        if folder.is_dir() and any(folder.iterdir()) and not (folder / MARKER).is_file():
            msg = f"{folder} is not empty and holds no report"
            raise InputError(msg, remedy="choose another folder with --out")
        shutil.rmtree(folder / SIDE, ignore_errors=True)
        (folder / SIDE).mkdir(parents=True)
        (folder / MARKER).write_text(
            "A report written by `ab report`; open index.html. It may be deleted.\n", encoding="utf-8"
        )
    except OSError as error:
        msg = f"cannot write a report into {folder}: {error.strerror or error}"
        raise InputError(msg, remedy="choose another folder with --out") from error


def _asset(name: str) -> str:
    return files("agentbench.reports.html").joinpath("assets", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
