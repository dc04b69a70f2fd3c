"""The list_files and read_file tools. They read the tree on the host and follow no symlink out of it."""

from __future__ import annotations

from pydantic import Field

from agentbench.core.command import Stream
from agentbench.core.errors import ToolFault
from agentbench.tools.definition import Arguments, Execution, Tool, ToolContext
from agentbench.tools.paths import MAX_PATH, follow, literal, relative, show
from agentbench.tools.result import OutputPolicy, ToolError, ToolResult, shorten
from agentbench.tools.rules import matches
from agentbench.tree.entry import Entry, Kind
from agentbench.tree.limits import TreeTooLarge

MAX_LISTED = 2_000
MAX_READ = 8 * 1024 * 1024
_WHOLE = OutputPolicy(first_lines=1_000, last_lines=1_000, max_chars=256_000)


class ListFiles(Arguments):
    root: str = Field(default=".", max_length=MAX_PATH, description="Folder to list, relative to the workspace.")
    glob: str | None = Field(
        default=None,
        min_length=1,
        max_length=1000,
        description="Only paths that match, in the manner of gitignore, relative to root: '*.py', 'src/**/test_*.py'.",
    )


class ReadFile(Arguments):
    path: str = Field(min_length=1, max_length=MAX_PATH, description="File to read, relative to the workspace.")
    start_line: int | None = Field(default=None, ge=1, description="First line wanted, counted from 1.")
    end_line: int | None = Field(default=None, ge=1, description="Last line wanted, included.")


def list_files(context: ToolContext, arguments: ListFiles) -> Execution:
    entries = context.tracker.entries()
    root = follow(
        literal(relative(arguments.root, context.workdir), entries), entries, context.tracker.target, context.workdir
    )
    if root in entries:
        paths = [root]
    else:
        prefix = root + b"/" if root else b""
        paths = [path for path in entries if path.startswith(prefix)] if prefix else list(entries)
        if root and not paths:
            raise ToolFault(f"no such file or directory: '{show(root)}'", kind=ToolError.NOT_FOUND)
        if arguments.glob is not None:
            globs = (arguments.glob,)
            paths = [path for path in paths if matches(globs, path[len(prefix) :])]
    visible = [path for path in paths if context.scope.may_read(path)]
    listed = "".join(show(path) + "\n" for path in visible[:MAX_LISTED])
    more = len(visible) - MAX_LISTED
    note = f"{more} more files not listed; narrow root or glob" if more > 0 else ""
    return Execution(ToolResult(ok=True, stdout=listed, truncated=more > 0, note=note), Stream.of(listed.encode()))


def read_file(context: ToolContext, arguments: ReadFile) -> Execution:
    first, last = arguments.start_line or 1, arguments.end_line
    if last is not None and last < first:
        raise ToolFault(f"read_file: end_line {last} comes before start_line {first}", kind=ToolError.INVALID_ARGUMENTS)
    path = _readable(context, arguments.path)
    data = _content(context, path)
    if b"\0" in data:
        raise ToolFault(f"'{show(path)}' is a binary file of {len(data)} bytes", kind=ToolError.BINARY_FILE)
    lines = data.splitlines(keepends=True)
    if first > max(len(lines), 1):
        raise ToolFault(
            f"'{show(path)}' has only {len(lines)} lines; start_line is {first}", kind=ToolError.INVALID_ARGUMENTS
        )
    wanted = b"".join(lines[first - 1 : last])
    text = shorten(wanted, _WHOLE)
    shown_last = min(last or len(lines), len(lines))
    note = f"lines {first} to {shown_last} of {len(lines)}" if (first, shown_last) != (1, len(lines)) else ""
    if text.truncated:
        note = f"{note or f'{len(lines)} lines'}; output is truncated: ask for fewer lines"
    return Execution(ToolResult(ok=True, stdout=text.text, truncated=text.truncated, note=note), Stream.of(wanted))


def _readable(context: ToolContext, text: str) -> bytes:
    """Return the path of an existing regular file that may be read."""
    entries = context.tracker.entries()
    asked = literal(relative(text, context.workdir), entries)
    path = follow(asked, entries, context.tracker.target, context.workdir)
    if not context.scope.may_read(path):
        raise ToolFault(f"the contract does not allow reading '{show(path)}'", kind=ToolError.PATH_DENIED)
    entry = entries.get(path)
    if entry is None:
        raise _missing(path, entries)
    if entry.kind is not Kind.FILE:
        raise ToolFault(f"'{show(path)}' is not a regular file", kind=ToolError.NOT_A_FILE)
    return path


def _missing(path: bytes, entries: dict[bytes, Entry]) -> ToolFault:
    if not path or any(other.startswith(path + b"/") for other in entries):
        name = show(path) or "."
        return ToolFault(f"'{name}' is a directory; use list_files", kind=ToolError.IS_DIRECTORY)
    return ToolFault(f"no such file: '{show(path)}'", kind=ToolError.NOT_FOUND)


def _content(context: ToolContext, path: bytes) -> bytes:
    try:
        return context.tracker.read(path, max_bytes=MAX_READ)
    except TreeTooLarge:
        raise ToolFault(
            f"'{show(path)}' is larger than {MAX_READ} bytes; use run with head, tail or sed", kind=ToolError.TOO_LARGE
        ) from None
    except OSError as error:
        raise ToolFault(f"'{show(path)}' cannot be read: {error.strerror}", kind=ToolError.NOT_A_FILE) from None


LIST_FILES = Tool(
    "list_files",
    "inspect",
    ListFiles,
    list_files,
    description="List the files of the workspace, one path per line, sorted.",
)
READ_FILE = Tool(
    "read_file",
    "inspect",
    ReadFile,
    read_file,
    description="Read a text file of the workspace, whole or from start_line to end_line.",
)
