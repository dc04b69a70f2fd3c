"""A document against a schema: every deviation as a problem with its line, in words instead of validator jargon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from agentbench.contract.problem import KeyPath, Problem, did_you_mean, nearest
from agentbench.contract.repair import Repair
from agentbench.contract.schema_shape import keys_of, model_at, sections_of
from agentbench.contract.yaml_document import Document, Value, descend

M = TypeVar("M", bound=BaseModel)

_PATTERNS = {
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$": "letters, digits, dots, dashes and underscores (at most 128, first a letter or digit)",
    r"^(sha256:)?[0-9a-f]{64}$": "64 lower-case hexadecimal digits",
    r"^3\.\d+$": 'a Python version such as "3.11"',
    r"^/[^\x00]*$": "an absolute path such as /workspace",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "the name of an environment variable (letters, digits, underscores)",
}
_UNION_WORDS = {
    "repo": "a mapping with `url` and `commit`, `archive` and `sha256`, or `path`; or the word none",
    "static": "a list of commands, or the word none",
}
_BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}
_KINDS = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


@dataclass(frozen=True, slots=True)
class Conformity(Generic[M]):
    """How a document compares with a schema.

    With problems, `model` is a guess at what was meant, good enough to look for further problems; what hangs on a
    `doubtful` key is not worth reporting. It is None when not even a guess is possible.
    """

    model: M | None
    problems: tuple[Problem, ...]
    doubtful: frozenset[KeyPath] = frozenset()


def conform(document: Document, model: type[M]) -> Conformity[M]:
    """Compare; the model can be trusted exactly when there are no problems."""
    found, details = _validate(document.value, model)
    if not details:
        return Conformity(found, document.problems)
    # A key that is broken as YAML has been complained about once, which is enough.
    broken = {problem.key for problem in document.problems}
    problems = [problem for problem in _problems(document, model, details) if problem.key not in broken]
    guess = Repair(document, model)
    for _ in range(4):
        located = ((*_locate(guess.value, detail["loc"]), detail["type"]) for detail in details)
        guess.apply([(path, kind) for path, inside, kind in located if inside != "other"])
        found, details = _validate(guess.value, model)
        if found is not None:
            break
    return Conformity(found, (*document.problems, *problems), frozenset(guess.doubtful))


def _validate(value: dict[str, Value], model: type[M]) -> tuple[M | None, list[ErrorDetails]]:
    source = json.dumps(value, ensure_ascii=False)
    try:
        return model.model_validate_json(source, strict=True, by_alias=True, by_name=False), []
    except ValidationError as error:
        return None, error.errors(include_url=False, include_input=False)


def _problems(document: Document, model: type[BaseModel], details: list[ErrorDetails]) -> Iterator[Problem]:
    seen = set(_misspelt(document, model, details))
    for detail in details:
        path, inside = _locate(document.value, detail["loc"])
        if inside == "other":
            continue
        if inside == "union":
            if path not in seen:
                seen.add(path)
                words = _UNION_WORDS.get(str(path[-1]), "something else")
                yield document.problem(path, f"expected {words}; got {_shown(document, path)}")
            continue
        if inside == "key":
            words = expected(detail)
            yield document.problem(path, f"expected {words} as the key; got {json.dumps(path[-1])}")
        elif detail["type"] != "missing" or path not in seen:
            yield document.problem(path, _words(document, model, path, detail))


def _misspelt(document: Document, model: type[BaseModel], details: list[ErrorDetails]) -> Iterator[KeyPath]:
    """Keys that are there under a wrong name: reported as such, hence not also as missing."""
    for detail in details:
        if detail["type"] == "extra_forbidden":
            path, _ = _locate(document.value, detail["loc"])
            owner = model_at(model, path[:-1])
            if owner is not None and (meant := nearest(str(path[-1]), keys_of(owner))):
                yield (*path[:-1], meant)


def _locate(root: dict[str, Value], loc: tuple[int | str, ...]) -> tuple[KeyPath, str]:
    """The key path of an error, without the names of union members that the validator mixes into it.

    Says `other` for a complaint of a union member that was not meant, and `union` when none was.
    """
    path: KeyPath = ()
    for index, part in enumerate(loc):
        value = descend(root, path)
        if isinstance(part, str) and _is_member(part, path):
            if not isinstance(value, dict if path[-1] == "repo" else list):
                return path, "union"
            if part.startswith("literal["):
                return path, "other"
            continue
        if part == "[key]" and index == len(loc) - 1:
            return path, "key"
        path = (*path, part)
    return path, ""


def _is_member(part: str, path: KeyPath) -> bool:
    return bool(path) and path[-1] in _UNION_WORDS and (part == "Repo" or part.startswith(("literal[", "tuple[")))


def _words(document: Document, model: type[BaseModel], path: KeyPath, detail: ErrorDetails) -> str:
    kind = detail["type"]
    context = detail.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(model, path)
    if kind == "missing":
        return "is missing; " + _required_words(model, path)
    if kind == "literal_error":
        allowed = str(context.get("expected", "")).replace(" or ", ", ").replace("'", "").split(", ")
        value = document.at(path)
        hint = did_you_mean(value, allowed) if isinstance(value, str) else ""
        return f"expected {_either(allowed)}; got {_shown(document, path)}{hint}"
    if kind == "string_type":
        return _not_text(document, path)
    if kind == "string_too_short":
        return "expected some text; it is empty"
    return f"expected {expected(detail)}; got {_shown(document, path)}{_emptiness(document, path, kind)}"


def expected(detail: ErrorDetails) -> str:
    """What a validator wanted, in words that go after `expected`."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(str(context.get("pattern")), f"text like {context.get('pattern')}")
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return f"{words} {context.get(name):g}"
    return _KINDS.get(kind, detail["msg"].removeprefix("Input should be ").lower())


def _emptiness(document: Document, path: KeyPath, kind: str) -> str:
    if kind in _KINDS and document.at(path) is None:
        return " (an empty section: remove the key or give it a value)"
    return ""


def _not_text(document: Document, path: KeyPath) -> str:
    plain = document.plain.get(path)
    value = document.at(path)
    if plain and isinstance(value, bool | int | float):
        kind = "the truth value" if isinstance(value, bool) else "the number"
        return f'expected text; unquoted, YAML reads it as {kind} {json.dumps(value)}; quote it: "{plain}"'
    return f"expected text; got {_shown(document, path)}"


def _unknown_key(model: type[BaseModel], path: KeyPath) -> str:
    owner = model_at(model, path[:-1])
    key = str(path[-1])
    names = keys_of(owner) if owner is not None else []
    hint = did_you_mean(key, names)
    if not hint:
        homes = [section for section, inner in sections_of(model) if key in keys_of(inner)]
        hint = f" (it belongs under {_either([f'`{home}`' for home in homes])})" if homes else ""
    known = f"; known here: {', '.join(names)}" if not hint and names else ""
    return f"is not a known key{hint}{known}"


def _required_words(model: type[BaseModel], path: KeyPath) -> str:
    if path[-1] == "repo":
        return f"expected {_UNION_WORDS['repo']}"
    owner = model_at(model, path[:-1])
    required = [name for name, info in owner.model_fields.items() if info.is_required()] if owner is not None else []
    return f"required here: {', '.join(required)}" if required else "it is required"


def _either(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _shown(document: Document, path: KeyPath) -> str:
    value = document.at(path)
    if isinstance(value, int | float) and path in document.plain:
        return document.plain[path]
    return show(value)


def show(value: Value) -> str:
    """A value as a person would name it in a message."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 60 else text[:57] + "…"
