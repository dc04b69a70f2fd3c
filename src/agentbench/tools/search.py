"""search: lines that match a regular expression, by ripgrep in the sandbox, or by Python there when ripgrep is missing.

Which files are searched is decided on the host, so all engines see the same ones in the same order. A regular expression is
never run on the host: one that takes for ever would stop the harness, in the sandbox it only meets its time limit. Words are
looked for on the host where the project is small (`nearby`): that is much faster than starting a program.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
from collections.abc import Iterator, Sequence
from importlib import resources

from pydantic import Field, JsonValue, field_validator

from agentbench.core.command import Command, Completed
from agentbench.core.errors import ToolFault
from agentbench.core.text import printable
from agentbench.tools.definition import Arguments, define
from agentbench.tools.host_search import find_nearby
from agentbench.tools.result import ToolError, ToolResult
from agentbench.tools.run_command import plain
from agentbench.tools.scope import matches
from agentbench.tools.search_hits import Hit
from agentbench.tools.search_prefilter import narrowed
from agentbench.tools.tool_context import Execution, ToolContext, text_stream
from agentbench.tree.entry import Entry, Kind

MAX_RESULTS = 1_000
MAX_FILE = 1024 * 1024
KEEP_BYTES = 8 * 1024 * 1024

RIPGREP = "rg"
_OPTIONS = ("--no-config", "--json", "-j1", "--no-messages", "--encoding", "none")
_NOT_FOUND = 127
_ARGUMENT_BYTES = 64 * 1024
"""Names up to this much are passed directly; more go through xargs, which costs another process."""


class Search(Arguments):
    query: str = Field(
        min_length=1, max_length=2000, description="Regular expression, matched line by line; case matters."
    )
    glob: str | None = Field(
        default=None,
        min_length=1,
        max_length=1000,
        description="Only files that match, in the manner of gitignore: '*.py', 'src/**'.",
    )
    max_results: int = Field(default=100, ge=1, le=MAX_RESULTS, description="At most this many lines.")

    @field_validator("query")
    @classmethod
    def _is_text(cls, value: str) -> str:
        if "\n" in value or "\r" in value:
            msg = "must be one line"
            raise ValueError(msg)
        return plain(value)


def search(context: ToolContext, arguments: Search) -> Execution:
    entries, skipped = _candidates(context, arguments.glob)
    notes = [f"{skipped} files larger than {MAX_FILE} bytes were left out"] if skipped else []
    limit = arguments.max_results + 1
    hits = find_nearby(context.tracker, arguments.query, entries, limit)
    if hits is None:
        hits, told = _by_program(context, arguments.query, entries, limit)
        notes += told
    more = len(hits) > arguments.max_results
    if more:
        notes.append(f"only the first {arguments.max_results} matches are shown; narrow the query or the glob")
    text = "".join(f"{hit}\n" for hit in hits[: arguments.max_results])
    return Execution(
        ToolResult(ok=True, stdout=text, truncated=more, note="; ".join(notes)), text_stream(text.encode())
    )


def _by_program(context: ToolContext, query: str, entries: list[Entry], limit: int) -> tuple[list[Hit], list[str]]:
    """What the sandbox's program finds, and what is to be said about it."""
    if not entries:
        return [], []
    notes = []
    completed = _look(context, query, narrowed(context.tracker, query, entries), literal=False)
    if _pattern_is_bad(completed):
        completed = _look(context, query, entries, literal=True)
        notes.append("the query is not a valid regular expression; it was searched as plain text")
    _require_answer(completed)
    hits = list(_hits(completed.stdout.head, limit))
    if completed.stdout.dropped_bytes and len(hits) < limit:
        notes.append("there are more matches than could be looked at")
    return hits, notes


def _candidates(context: ToolContext, glob: str | None) -> tuple[list[Entry], int]:
    """Regular files to search, sorted, and how many were too large for it."""
    globs = (glob,) if glob is not None else ()
    found, skipped = [], 0
    for path, entry in context.tracker.entries().items():
        if entry.kind is not Kind.FILE or (globs and not matches(globs, path)) or not context.scope.may_read(path):
            continue
        if entry.size > MAX_FILE:
            skipped += 1
        elif entry.size:
            found.append(entry)
    return found, skipped


def _look(context: ToolContext, query: str, entries: Sequence[Entry], *, literal: bool) -> Completed:
    names = b"".join(b"./" + entry.path + b"\0" for entry in entries)
    timeout = max(min(context.rules.caps.tool_timeout_sec, context.time_left()), 0.001)

    def command(*argv: str) -> Command:
        return Command(argv=argv, cwd=context.workdir, stdin=names, timeout_sec=timeout, keep_bytes=KEEP_BYTES)

    done = context.sandbox.run(command(*_ripgrep(query, names, literal=literal)))
    if done.exit_code == _NOT_FOUND:
        done = context.sandbox.run(command("python3", "-I", "-c", _inside(), query, "literal" if literal else "regex"))
    return done


def _ripgrep(query: str, names: bytes, *, literal: bool) -> tuple[str, ...]:
    program = (RIPGREP, *_OPTIONS, "--fixed-strings" if literal else "--no-fixed-strings", "-e", query, "--")
    if len(names) <= _ARGUMENT_BYTES:
        try:
            return (*program, *names.decode("utf-8").split("\0")[:-1])
        except UnicodeDecodeError:
            pass  # arguments are text; bytes go through standard input
    return ("xargs", "-0", *program)


@functools.cache
def _inside() -> str:
    return resources.files("agentbench.tools").joinpath("python_search.py").read_text(encoding="utf-8")


def _pattern_is_bad(done: Completed) -> bool:
    """Both engines keep silent about files, so what they complain about is the pattern."""
    return not done.timed_out and done.stdout.total_bytes == 0 and b"error" in done.stderr.kept


def _require_answer(done: Completed) -> None:
    if done.timed_out:
        raise ToolFault(f"the search took longer than {done.duration_sec:.0f} s", kind=ToolError.TIMEOUT)
    if done.stdout.total_bytes == 0 and done.stderr.total_bytes:
        why = printable(done.stderr.kept[:500].decode("utf-8", "replace"))
        raise ToolFault(f"the search failed: {why}", kind=ToolError.SEARCH_FAILED)


def _hits(output: bytes, limit: int) -> Iterator[Hit]:
    """Matches in the order of the files. The program ran where the agent rules: what is not in order is passed over."""
    of_file: list[Hit] = []
    count = 0
    for line in output.split(b"\n"):
        kind, data = _record(line)
        if kind == "match" and count + len(of_file) < limit:
            hit = _hit(data)
            if hit is not None:
                of_file.append(hit)
        elif kind == "end":
            if data.get("binary_offset") is None:
                yield from of_file
                count += len(of_file)
            of_file = []
        if count >= limit:
            return
    yield from of_file  # of a file whose end was cut off


def _record(line: bytes) -> tuple[str, dict[str, JsonValue]]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return "", {}
    if not isinstance(record, dict) or not isinstance(record.get("data"), dict):
        return "", {}
    return str(record.get("type")), record["data"]


def _hit(data: dict[str, JsonValue]) -> Hit | None:
    path, line, number = _bytes(data.get("path")), _bytes(data.get("lines")), data.get("line_number")
    if path is None or line is None or not isinstance(number, int):
        return None
    return Hit.of(path.removeprefix(b"./"), number, line)


def _bytes(value: JsonValue) -> bytes | None:
    """Text or base64, as ripgrep writes what may not be UTF-8."""
    if not isinstance(value, dict):
        return None
    text, encoded = value.get("text"), value.get("bytes")
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(encoded) if isinstance(encoded, str) else None
    except (binascii.Error, ValueError):
        return None


SEARCH = define(
    "search",
    "inspect",
    Search,
    search,
    description="Search the files of the workspace for lines that match a regular expression; gives path:line:text.",
)
