"""Results of tool calls, and how much of an output they show. Errors are data."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum

from pydantic import JsonValue

from agentbench.core.dataclass import dataclass


class ToolError(StrEnum):
    """Reasons for which a call was refused or failed. The value is the result's `error_type`."""

    UNKNOWN_TOOL = "unknown_tool"
    INVALID_ARGUMENTS = "invalid_arguments"
    TOOL_DENIED = "tool_denied"
    STAGE_DENIED = "stage_denied"
    COMMAND_DENIED = "command_denied"
    WRITE_SUSPENDED = "write_suspended"
    QUARANTINED = "quarantined"
    PATH_UNSAFE = "path_unsafe"
    PATH_DENIED = "path_denied"
    OUTSIDE_SCOPE = "outside_scope"
    NOT_FOUND = "not_found"
    IS_DIRECTORY = "is_directory"
    NOT_A_FILE = "not_a_file"
    BINARY_FILE = "binary_file"
    TOO_LARGE = "too_large"
    PATCH_INVALID = "patch_invalid"
    SEARCH_FAILED = "search_failed"
    NONZERO_EXIT = "nonzero_exit"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call, in the same form for all tools. `ok` is true exactly when `error_type` is None.

    A command that exits with a status other than 0 did run: its `error_type` is `nonzero_exit`, and its output is included.
    `note` says what a reader of the output must know: what was cut, which limit was lowered, what was out of scope.
    """

    ok: bool
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    changed_files: tuple[str, ...] = ()
    error_type: ToolError | None = None
    error_message: str | None = None
    timed_out: bool = False
    truncated: bool = False
    note: str = ""

    def __post_init__(self) -> None:
        if self.ok != (self.error_type is None):
            raise ValueError("a result is ok if and only if it has no error")

    @classmethod
    def refused(cls, kind: ToolError, message: str) -> ToolResult:
        return cls(ok=False, error_type=kind, error_message=message)

    def as_json(self) -> dict[str, JsonValue]:
        """Return the result for a model or a program, without empty fields."""
        full: dict[str, JsonValue] = {**asdict(self), "changed_files": list(self.changed_files)}
        return {key: value for key, value in full.items() if key in {"ok", "stdout"} or _has_value(value)}


def _has_value(value: JsonValue) -> bool:
    return bool(value) or (value == 0 and not isinstance(value, bool))


@dataclass(frozen=True, slots=True)
class OutputPolicy:
    """The part of an output that an agent sees: the first and last lines, long lines cut. Digests cover everything."""

    first_lines: int = 100
    last_lines: int = 200
    """More of the end than of the start, because test runners and tracebacks print what matters last."""
    line_chars: int = 2_000
    max_chars: int = 64_000


@dataclass(frozen=True, slots=True)
class Shown:
    text: str
    truncated: bool


def shorten(data: bytes, policy: OutputPolicy, *, dropped_bytes: int = 0) -> Shown:
    """Return the text of `data` within the policy. A marker line shows where something is missing."""
    text = data.decode("utf-8", "replace")
    if len(text) <= policy.line_chars and text.count("\n") <= policy.first_lines:
        return Shown(text, dropped_bytes > 0)
    lines = text.split("\n")
    ends_in_newline = lines[-1] == ""
    if ends_in_newline:
        lines.pop()
    first, last, missing = lines, [], len(lines) - policy.first_lines - policy.last_lines
    if missing > 0:
        first, last = lines[: policy.first_lines], lines[len(lines) - policy.last_lines :]
    marker = [f"[... {missing} lines not shown ...]"] if missing > 0 else []
    shown = [
        *(_cut(line, policy.line_chars) for line in first),
        *marker,
        *(_cut(line, policy.line_chars) for line in last),
    ]
    truncated = dropped_bytes > 0 or shown != lines
    joined = "\n".join(shown) + ("\n" if ends_in_newline else "")
    if len(joined) > policy.max_chars:
        half = policy.max_chars // 2
        joined = f"{joined[:half]}\n[... {len(joined) - 2 * half} characters not shown ...]\n{joined[-half:]}"
        truncated = True
    return Shown(joined, truncated)


def _cut(line: str, limit: int) -> str:
    if len(line) <= limit:
        return line
    half = limit // 2
    return f"{line[:half]}[... {len(line) - 2 * half} characters ...]{line[-half:]}"
