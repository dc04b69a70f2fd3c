"""Finds JSON objects and patches in the free text of a model's reply."""

from __future__ import annotations

import re

from agentbench.models.json_values import JsonObject, read_object

_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<ticks>`{3,}|~{3,})[ \t]*(?P<word>[\w+-]*)[^\n]*$")
_DIFF_WORDS = frozenset({"diff", "patch", "udiff"})
_LOOKS_LIKE_DIFF = re.compile(r"^(?:diff --git |--- [^\n]+\n\+\+\+ )", re.MULTILINE)


def find_object(text: str) -> JsonObject:
    """Return the JSON object in a plain-text reply: the whole text, the first code fence with one, or the outermost braces.

    Raises:
        ValueError: there is none.
    """
    candidates = [text, *(body for _, body in _fences(text)), text[text.find("{") : text.rfind("}") + 1]]
    for candidate in candidates:
        try:
            return read_object(candidate)
        except ValueError:
            continue
    raise ValueError("no JSON object in the reply")


def find_patch(text: str) -> str | None:
    """Return the unified diff in a plain-text reply, or None. Several fenced diffs are joined.

    Nothing is repaired; the tool that applies the patch decides whether it is valid.
    """
    fenced = [body for word, body in _fences(text) if word in _DIFF_WORDS or _LOOKS_LIKE_DIFF.search(body)]
    if fenced:
        return "".join(body if body.endswith("\n") else body + "\n" for body in fenced)
    match = _LOOKS_LIKE_DIFF.search(text)
    if match is None:
        return None
    bare = text[match.start() :]
    return bare if bare.endswith("\n") else bare + "\n"


def _fences(text: str) -> list[tuple[str, str]]:
    """Return (language, body) of every code fence. An unclosed fence ends with the text, which may have been cut off."""
    fences: list[tuple[str, str]] = []
    opened: re.Match[str] | None = None
    body: list[str] = []
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if opened is None:
            if mark is not None:
                opened, body = mark, []
        elif mark is not None and mark["ticks"].startswith(opened["ticks"]) and not mark["word"]:
            fences.append((opened["word"].lower(), "\n".join(body) + "\n" if body else ""))
            opened = None
        else:
            indent = opened["indent"]
            body.append(line.removeprefix(indent) if indent else line)
    if opened is not None and body:
        fences.append((opened["word"].lower(), "\n".join(body)))
    return fences
