"""What a tool call gives back. Errors are data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pydantic import JsonValue


class ToolError(StrEnum):
    """Why a call was refused or what went wrong in it; the value is the result's `error_type`."""

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
    """The answer of a tool, the same shape for all of them. `ok` holds exactly when `error_type` is None.

    A command that ends with a status other than 0 did run: its `error_type` is `nonzero_exit` and its output is there.
    `note` tells what a reader of the output must know: what was cut, which limit was lowered, what was out of scope.
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
            msg = "a result is ok exactly when it has no error"
            raise ValueError(msg)

    @classmethod
    def refused(cls, kind: ToolError, message: str) -> ToolResult:
        return cls(ok=False, error_type=kind, error_message=message)

    def as_json(self) -> dict[str, JsonValue]:
        """For a model or a program; fields that say nothing are left out."""
        full: dict[str, JsonValue] = {
            "ok": self.ok,
            "stdout": self.stdout,
            "stderr": self.stderr,
            "exit_code": self.exit_code,
            "changed_files": list(self.changed_files),
            "error_type": self.error_type,
            "error_message": self.error_message,
            "timed_out": self.timed_out,
            "truncated": self.truncated,
            "note": self.note,
        }
        return {key: value for key, value in full.items() if key in {"ok", "stdout"} or _says_something(value)}


def _says_something(value: JsonValue) -> bool:
    return bool(value) or (value == 0 and not isinstance(value, bool))
