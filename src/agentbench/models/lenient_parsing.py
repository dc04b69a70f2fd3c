"""What models write: JSON that is nearly right, and patches between other words."""

from __future__ import annotations

import json
import math
import re
from typing import NoReturn

from pydantic import JsonValue

_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<ticks>`{3,}|~{3,})[ \t]*(?P<word>[\w+-]*)[^\n]*$")
_DIFF_WORDS = frozenset({"diff", "patch", "udiff"})
_LOOKS_LIKE_DIFF = re.compile(r"^(?:diff --git |--- [^\n]+\n\+\+\+ )", re.MULTILINE)


def read_object(text: str | bytes) -> dict[str, JsonValue]:
    """A JSON object, strictly: NaN, numbers beyond every float, another type, or depth without bound are refused.

    Raises:
        ValueError: says what is wrong and where.
    """
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        msg = "nested too deep"
        raise ValueError(msg) from None
    except UnicodeDecodeError:
        msg = "not UTF-8"
        raise ValueError(msg) from None
    if not isinstance(value, dict):
        msg = f"expected an object, found {type(value).__name__}"
        raise ValueError(msg)  # noqa: TRY004 - callers catch what json itself raises
    return value


def find_object(text: str) -> dict[str, JsonValue]:
    """The JSON object in a plain-text answer: the whole of it, the first fence that holds one, or the outermost braces.

    Raises:
        ValueError: there is none.
    """
    candidates = [text, *(body for _, body in _fences(text)), text[text.find("{") : text.rfind("}") + 1]]
    for candidate in candidates:
        try:
            return read_object(candidate)
        except ValueError:
            continue
    msg = "no JSON object in the answer"
    raise ValueError(msg)


def _finite(digits: str) -> float:
    """`1e999` is JSON, and no number that anything could be counted with."""
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits[:40])


def _refuse(constant: str) -> NoReturn:
    msg = f"{constant} is no JSON"
    raise ValueError(msg)


def find_patch(text: str) -> str | None:
    """The unified diff in a plain-text answer: in code fences (joined when there are several), or as bare text.

    None where there is none. Nothing is repaired: whether it applies is for the tool that applies it to say.
    """
    fenced = [body for word, body in _fences(text) if word in _DIFF_WORDS or _LOOKS_LIKE_DIFF.search(body)]
    if fenced:
        return "".join(body if body.endswith("\n") else body + "\n" for body in fenced)
    found = _LOOKS_LIKE_DIFF.search(text)
    if found is None:
        return None
    bare = text[found.start() :]
    return bare if bare.endswith("\n") else bare + "\n"


def _fences(text: str) -> list[tuple[str, str]]:
    """(language, body) of every code fence. One that is never closed ends with the text: the answer may be cut off."""
    found: list[tuple[str, str]] = []
    opened: re.Match[str] | None = None
    body: list[str] = []
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if opened is None:
            if mark is not None:
                opened, body = mark, []
        elif mark is not None and mark["ticks"].startswith(opened["ticks"]) and not mark["word"]:
            found.append((opened["word"].lower(), "\n".join(body) + "\n" if body else ""))
            opened = None
        else:
            indent = opened["indent"]
            body.append(line.removeprefix(indent) if indent else line)
    if opened is not None and body:
        found.append((opened["word"].lower(), "\n".join(body)))
    return found
