"""The search tool: finds lines that match a regular expression.

The host chooses the files, so every engine sees the same files in the same order. ripgrep searches them in the sandbox, or
Python does where ripgrep is missing; a pattern that runs forever only meets the time limit there. Plain text in a small
workspace is searched on the host (see `host_search`).
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
from collections.abc import Iterator, Sequence
from importlib import resources

from pydantic import Field, JsonValue, field_validator

from agentbench.core.command import Command, Completed, Stream
from agentbench.core.errors import ToolFault
from agentbench.core.text import printable
from agentbench.tools.definition import Arguments, Execution, Tool, ToolContext
from agentbench.tools.host_search import Match, search_on_host
from agentbench.tools.paths import show
from agentbench.tools.result import ToolError, ToolResult
from agentbench.tools.rules import matches
from agentbench.tools.run_command import plain
from agentbench.tree.entry import Entry, Kind

MAX_RESULTS = 1_000
MAX_FILE = 1024 * 1024
MAX_LINE_SHOWN = 400
KEEP_BYTES = 8 * 1024 * 1024

RIPGREP = "rg"
_OPTIONS = ("--no-config", "--json", "-j1", "--no-messages", "--encoding", "none")
_NOT_FOUND = 127
_ARGUMENT_BYTES = 64 * 1024
"""Up to this size, file names are passed as arguments. More go through xargs, which costs another process."""


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
            raise ValueError("must be one line")
        return plain(value)


def search(context: ToolContext, arguments: Search) -> Execution:
    entries, skipped = _candidates(context, arguments.glob)
    notes = [f"skipped {skipped} files larger than {MAX_FILE} bytes"] if skipped else []
    limit = arguments.max_results + 1
    lines, candidates = search_on_host(context.tracker, arguments.query, entries, limit)
    if lines is None:
        lines, more_notes = _search_in_sandbox(context, arguments.query, entries, candidates, limit)
        notes += more_notes
    more = len(lines) > arguments.max_results
    if more:
        notes.append(f"showing the first {arguments.max_results} matches; narrow the query or the glob")
    text = "".join(_format(match) for match in lines[: arguments.max_results])
    return Execution(ToolResult(ok=True, stdout=text, truncated=more, note="; ".join(notes)), Stream.of(text.encode()))


def _search_in_sandbox(
    context: ToolContext, query: str, entries: Sequence[Entry], candidates: Sequence[Entry], limit: int
) -> tuple[list[Match], list[str]]:
    """Search `candidates`, or all `entries` if the query is only valid as plain text. Returns matches and notes."""
    if not entries:
        return [], []
    notes = []
    completed = _run_search(context, query, candidates, literal=False)
    if _pattern_is_invalid(completed):
        completed = _run_search(context, query, entries, literal=True)
        notes.append("the query is not a valid regular expression; searched for it as plain text")
    _require_answer(completed)
    lines = list(parse_matches(completed.stdout.head, limit))
    if completed.stdout.dropped_bytes and len(lines) < limit:
        notes.append("too many matches: some files were not searched")
    return lines, notes


def _format(match: Match) -> str:
    path, number, line = match
    text = printable(line.decode("utf-8", "replace").rstrip("\r\n"), keep="\t")
    return f"{show(path)}:{number}:{text if len(text) <= MAX_LINE_SHOWN else text[:MAX_LINE_SHOWN] + '[...]'}\n"


def _candidates(context: ToolContext, glob: str | None) -> tuple[list[Entry], int]:
    """Return the regular files to search, sorted by path, and how many are too large to search."""
    globs = (glob,) if glob is not None else ()
    entries, skipped = [], 0
    for path, entry in context.tracker.entries().items():
        if entry.kind is not Kind.FILE or (globs and not matches(globs, path)) or not context.scope.may_read(path):
            continue
        if entry.size > MAX_FILE:
            skipped += 1
        elif entry.size:
            entries.append(entry)
    return entries, skipped


def _run_search(context: ToolContext, query: str, entries: Sequence[Entry], *, literal: bool) -> Completed:
    names = b"".join(b"./" + entry.path + b"\0" for entry in entries)
    timeout = max(min(context.rules.caps.tool_timeout_sec, context.time_left()), 0.001)

    def command(*argv: str) -> Command:
        return Command(argv=argv, cwd=context.workdir, stdin=names, timeout_sec=timeout, keep_bytes=KEEP_BYTES)

    completed = context.sandbox.run(command(*ripgrep_command(query, names, literal=literal)))
    if completed.exit_code == _NOT_FOUND:
        mode = "literal" if literal else "regex"
        completed = context.sandbox.run(command("python3", "-I", "-c", _python_search(), query, mode))
    return completed


def ripgrep_command(query: str, names: bytes, *, literal: bool) -> tuple[str, ...]:
    """Return the command that searches these names, or that reads them from its standard input if they are many."""
    program = (RIPGREP, *_OPTIONS, "--fixed-strings" if literal else "--no-fixed-strings", "-e", query, "--")
    if len(names) <= _ARGUMENT_BYTES:
        try:
            return (*program, *names.decode("utf-8").split("\0")[:-1])
        except UnicodeDecodeError:
            pass  # arguments must be text; other names go through standard input
    return ("xargs", "-0", *program)


@functools.cache
def _python_search() -> str:
    return resources.files("agentbench.tools").joinpath("python_search.py").read_text(encoding="utf-8")


def _pattern_is_invalid(completed: Completed) -> bool:
    """Both engines print no errors about files, so an error is about the pattern."""
    return not completed.timed_out and completed.stdout.total_bytes == 0 and b"error" in completed.stderr.kept


def _require_answer(completed: Completed) -> None:
    if completed.timed_out:
        raise ToolFault(f"the search took longer than {completed.duration_sec:.0f} s", kind=ToolError.TIMEOUT)
    if completed.stdout.total_bytes == 0 and completed.stderr.total_bytes:
        why = printable(completed.stderr.kept[:500].decode("utf-8", "replace"))
        raise ToolFault(f"the search failed: {why}", kind=ToolError.SEARCH_FAILED)


def parse_matches(output: bytes, limit: int) -> Iterator[Match]:
    """Read ripgrep's JSON lines. The agent controls the sandbox, so malformed lines are skipped."""
    in_file: list[Match] = []
    count = 0
    for line in output.split(b"\n"):
        kind, data = _record(line)
        if kind == "match" and count + len(in_file) < limit:
            match = _match(data)
            if match is not None:
                in_file.append(match)
        elif kind == "end":
            if data.get("binary_offset") is None:
                yield from in_file
                count += len(in_file)
            in_file = []
        if count >= limit:
            return
    yield from in_file  # the output was cut before the end of this file


def _record(line: bytes) -> tuple[str, dict[str, JsonValue]]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return "", {}
    if not isinstance(record, dict) or not isinstance(record.get("data"), dict):
        return "", {}
    return str(record.get("type")), record["data"]


def _match(data: dict[str, JsonValue]) -> Match | None:
    path, line, number = _bytes(data.get("path")), _bytes(data.get("lines")), data.get("line_number")
    if path is None or line is None or not isinstance(number, int):
        return None
    return path.removeprefix(b"./"), number, line


def _bytes(value: JsonValue) -> bytes | None:
    """Decode text or base64, which ripgrep uses for what is not UTF-8."""
    if not isinstance(value, dict):
        return None
    text, encoded = value.get("text"), value.get("bytes")
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(encoded) if isinstance(encoded, str) else None
    except (binascii.Error, ValueError):
        return None


SEARCH = Tool(
    "search",
    "inspect",
    Search,
    search,
    description="Search the files of the workspace for lines that match a regular expression; gives path:line:text.",
)
