"""Searches files where ripgrep is missing, and prints ripgrep's JSON. Runs inside the sandbox: standard library only.

Arguments: the pattern, and `literal` or `regex`. Standard input: NUL-separated file names.
"""

from __future__ import annotations

import base64
import json
import re
import sys


def _encode(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"bytes": base64.b64encode(data).decode("ascii")}


def main(query: str, mode: str) -> int:
    try:
        pattern = re.compile(re.escape(query) if mode == "literal" else query)
    except (re.error, RecursionError, OverflowError) as problem:
        sys.stderr.write(f"error: {problem}\n")
        return 2
    for name in sys.stdin.buffer.read().split(b"\0"):
        try:
            with open(name, "rb") as file:  # noqa: PTH123 - a name of bytes
                content = file.read()
        except OSError:
            continue
        if b"\0" in content:
            continue
        matched = False
        for number, line in enumerate(content.split(b"\n"), start=1):
            # A carriage return is part of the line, as in ripgrep.
            if pattern.search(line.decode("utf-8", "surrogateescape")):
                matched = True
                match = {"path": _encode(name), "lines": _encode(line), "line_number": number}
                sys.stdout.write(json.dumps({"type": "match", "data": match}) + "\n")
        if matched:
            sys.stdout.write(json.dumps({"type": "end", "data": {"binary_offset": None}}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
