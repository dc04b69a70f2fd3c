"""Code of any language made wrong, by what its lines look like."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agentbench.acceptance.mutation.change import Change

_COMMENT = re.compile(rb"\s*(?:#|//|/\*|\*|--|$)")
_NUMBER = re.compile(rb"(?<![\w.])\d{1,9}(?![\w.])")
_FLIPPED = {
    rb"<=": rb"<", rb">=": rb">", rb"==": rb"!=", rb"!=": rb"==", rb"&&": rb"||", rb"||": rb"&&",
}  # fmt: skip
_FLIP = re.compile(b"|".join(re.escape(one) for one in _FLIPPED))
_IF = re.compile(rb"\bif\s*\((.+)\)(\s*\{?\s*)$")
_RETURN = re.compile(rb"(\breturn\s+)([^;]+)(;?)")
_NAMES = {b"<=": "off_by_one", b">=": "off_by_one", b"&&": "swapped_operator", b"||": "swapped_operator"}


def text_changes(lines: Sequence[bytes]) -> Iterator[Change]:
    """Lines with their newlines in; whole files with one of them changed out."""
    for index, line in enumerate(lines):
        if _COMMENT.match(line):
            continue
        for operator, other in _of_line(line):
            what = other.decode("utf-8", "replace").strip()[:80] or "(left out)"
            yield Change(operator, index + 1, what, b"".join([*lines[:index], other, *lines[index + 1 :]]))


def _of_line(line: bytes) -> Iterator[tuple[str, bytes]]:
    body = line.rstrip(b"\r\n")
    end = line[len(body) :]
    for match in _NUMBER.finditer(body):
        for other in (int(match[0]) + 1, int(match[0]) - 1):
            yield "off_by_one", body[: match.start()] + str(other).encode() + body[match.end() :] + end
    for match in _FLIP.finditer(body):
        operator = _NAMES.get(match[0], "negated_condition")
        yield operator, body[: match.start()] + _FLIPPED[match[0]] + body[match.end() :] + end
    if found := _IF.search(body):
        yield "negated_condition", body[: found.start(1)] + b"!(" + found[1] + b")" + body[found.end(1) :] + end
    if found := _RETURN.search(body):
        yield "constant_return", body[: found.start(2)] + b"0" + body[found.end(2) :] + end
    yield "deleted_statement", b""
