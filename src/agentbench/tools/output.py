"""What is shown of an output: the first N and the last N lines, long lines cut (R-16). Digests are taken of everything."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OutputPolicy:
    first_lines: int = 100
    last_lines: int = 200
    """More of the end than of the start: test runners and tracebacks say what matters last."""
    line_chars: int = 2_000
    max_chars: int = 64_000


@dataclass(frozen=True, slots=True)
class Shown:
    text: str
    truncated: bool


def shorten(data: bytes, policy: OutputPolicy, *, dropped_bytes: int = 0) -> Shown:
    """Text of `data` within the policy; a marker line stands where something is missing."""
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
