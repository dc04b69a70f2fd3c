"""Validate a YAML document against a schema and report every deviation with its line and in plain words.

Part of this is guessing what an invalid document meant, so that its other problems are found in the same pass. A guess
is never run: a document with problems is always rejected.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Generic, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from agentbench.contract.problem import KeyPath, Problem, did_you_mean, nearest
from agentbench.contract.schema import SLUG
from agentbench.contract.yaml_document import Document, Value, descend
from agentbench.core.dataclass import dataclass

M = TypeVar("M", bound=BaseModel)

_PATTERNS = {
    SLUG: ("up to 128 letters, digits, dots, dashes and underscores, starting with a letter or digit"),
    r"^(sha256:)?[0-9a-f]{64}$": "64 lower-case hexadecimal digits",
    r"^3\.\d+$": 'a Python version such as "3.11"',
    r"^/[^\x00]*$": "an absolute path such as /workspace",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "the name of an environment variable (letters, digits, underscores)",
}
_UNION_WORDS = {
    "repo": "a mapping with `url` and `commit`, `archive` and `sha256`, or `path`; or the word `none`",
    "static": "a list of commands, or the word `none`",
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
class Validated(Generic[M]):
    """A document after validation.

    Without problems, `model` is what the document says. With problems it is a guess, good enough to look for further
    ones, or None if no guess is possible. Problems that depend on a `guessed` key are not worth reporting.
    """

    model: M | None
    problems: tuple[Problem, ...]
    guessed: frozenset[KeyPath] = frozenset()


def validate_document(document: Document, model: type[M]) -> Validated[M]:
    """Validate a document; trust the resulting model only if there are no problems."""
    instance, details = _validate(document.value, model)
    if not details:
        return Validated(instance, document.problems)
    # A key with a YAML problem is reported once, not again for its value.
    broken = {problem.key for problem in document.problems}
    problems = [problem for problem in _problems(document, model, details) if problem.key not in broken]
    guess = _Guess(document, model)
    for _ in range(4):
        located = ((*_locate(guess.value, detail["loc"]), detail["type"]) for detail in details)
        guess.apply([(path, kind) for path, place, kind in located if place != "other"])
        instance, details = _validate(guess.value, model)
        if instance is not None:
            break
    return Validated(instance, (*document.problems, *problems), frozenset(guess.guessed))


def _validate(value: dict[str, Value], model: type[M]) -> tuple[M | None, list[ErrorDetails]]:
    source = json.dumps(value, ensure_ascii=False)
    try:
        return model.model_validate_json(source, strict=True, by_alias=True, by_name=False), []
    except ValidationError as error:
        return None, error.errors(include_url=False, include_input=False)


def _problems(document: Document, model: type[BaseModel], details: list[ErrorDetails]) -> Iterator[Problem]:
    reported = set(_misspelt(document, model, details))
    for detail in details:
        path, place = _locate(document.value, detail["loc"])
        if place == "other" or _is_consequence(document, path, detail):
            continue
        if place == "union":
            if path not in reported:
                reported.add(path)
                words = _UNION_WORDS.get(str(path[-1]), "something else")
                yield document.problem(path, f"expected {words}; got {_shown(document, path)}")
            continue
        if place == "key":
            words = expected(detail)
            yield document.problem(path, f"expected {words} as the key; got {json.dumps(path[-1])}")
        elif detail["type"] != "missing" or path not in reported:
            yield document.problem(path, _message(document, model, path, detail))


def _misspelt(document: Document, model: type[BaseModel], details: list[ErrorDetails]) -> Iterator[KeyPath]:
    """Return the keys that are present under a misspelt name, which are not also reported as missing."""
    for detail in details:
        if detail["type"] == "extra_forbidden":
            path, _ = _locate(document.value, detail["loc"])
            owner = model_at(model, path[:-1])
            if owner is not None and (meant := nearest(str(path[-1]), keys_of(owner))):
                yield (*path[:-1], meant)


def _locate(root: dict[str, Value], loc: tuple[int | str, ...]) -> tuple[KeyPath, str]:
    """Return the key path of an error without the union member names that the validator mixes into it.

    The second value is `other` if the error belongs to a union member that was not meant, `union` if no member was
    meant, `key` if the key itself is invalid.
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


def _is_consequence(document: Document, path: KeyPath, detail: ErrorDetails) -> bool:
    """Return whether a list is called too short only because entries of it are invalid."""
    value = document.at(path)
    return detail["type"] == "too_short" and isinstance(value, list) and len(value) >= detail["ctx"]["min_length"]


def _is_member(part: str, path: KeyPath) -> bool:
    return bool(path) and path[-1] in _UNION_WORDS and (part == "Repo" or part.startswith(("literal[", "tuple[")))


def _message(document: Document, model: type[BaseModel], path: KeyPath, detail: ErrorDetails) -> str:
    kind = detail["type"]
    context = detail.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(model, path)
    if kind == "missing":
        return "missing; " + _required_keys(model, path)
    if kind == "literal_error":
        allowed = str(context.get("expected", "")).replace(" or ", ", ").replace("'", "").split(", ")
        value = document.at(path)
        hint = did_you_mean(value, allowed) if isinstance(value, str) else ""
        return f"expected {_either(allowed)}; got {_shown(document, path)}{hint}"
    if kind == "string_type":
        return _not_text(document, path)
    if kind == "string_too_short":
        return "expected some text; it is empty"
    return f"expected {expected(detail)}; got {_shown(document, path)}{_empty_hint(document, path, kind)}"


def expected(detail: ErrorDetails) -> str:
    """Describe what a validator expected, as words that follow "expected"."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(str(context.get("pattern")), f"text like {context.get('pattern')}")
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return f"{words} {context.get(name):g}"
    if kind == "too_short":
        return f"at least {context.get('min_length')}"
    return _KINDS.get(kind, detail["msg"].removeprefix("Input should be ").lower())


def _empty_hint(document: Document, path: KeyPath, kind: str) -> str:
    if kind in _KINDS and document.at(path) is None:
        return " (remove the key or give it a value)"
    return ""


def _not_text(document: Document, path: KeyPath) -> str:
    plain = document.plain.get(path)
    value = document.at(path)
    if plain and isinstance(value, bool | int | float):
        kind = "boolean" if isinstance(value, bool) else "number"
        return f'expected text; YAML reads it as the {kind} {json.dumps(value)}; quote it: "{plain}"'
    return f"expected text; got {_shown(document, path)}"


def _unknown_key(model: type[BaseModel], path: KeyPath) -> str:
    owner = model_at(model, path[:-1])
    key = str(path[-1])
    names = keys_of(owner) if owner is not None else []
    hint = did_you_mean(key, names)
    if not hint:
        sections = [section for section, inner in sections_of(model) if key in keys_of(inner)]
        hint = f" (it belongs under {_either([f'`{section}`' for section in sections])})" if sections else ""
    known = f"; expected one of {', '.join(names)}" if not hint and names else ""
    return f"unknown key{hint}{known}"


def _required_keys(model: type[BaseModel], path: KeyPath) -> str:
    if path[-1] == "repo":
        return f"expected {_UNION_WORDS['repo']}"
    owner = model_at(model, path[:-1])
    required = [name for name, info in owner.model_fields.items() if info.is_required()] if owner is not None else []
    return f"required keys: {', '.join(required)}" if required else "it is required"


def _either(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _shown(document: Document, path: KeyPath) -> str:
    value = document.at(path)
    if isinstance(value, int | float) and path in document.plain:
        return document.plain[path]
    return show(value)


def show(value: Value) -> str:
    """Show a value in a message: shortened, and lists and mappings by their kind only."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 60 else text[:57] + "…"


# --- guessing a valid document ------------------------------------------------------------------------------------

_PLACEHOLDER = "placeholder"


class _Guess:
    """A copy of the document's value, changed until it is valid. `guessed` has the keys with invented values."""

    def __init__(self, document: Document, model: type[BaseModel]) -> None:
        self.document = document
        self.model = model
        self.value = copy.deepcopy(document.value)
        self.guessed: set[KeyPath] = set()

    def apply(self, errors: list[tuple[KeyPath, str]]) -> None:
        for path, kind in errors:
            if not path:
                continue
            owner = descend(self.value, path[:-1])
            if isinstance(owner, dict) and isinstance(path[-1], str):
                self._key(owner, path, path[-1], kind)
            elif isinstance(owner, list) and isinstance(path[-1], int) and path[-1] < len(owner):
                # Items keep their index, so that later problems name the right one.
                self.guessed.add(path)
                owner[path[-1]] = self._item(path)

    def _key(self, owner: dict[str, Value], path: KeyPath, key: str, kind: str) -> None:
        if kind == "extra_forbidden":
            value = owner.pop(key, None)
            if isinstance(value, bool | int | float):
                value = self.document.plain.get(path, value)
            model = model_at(self.model, path[:-1])
            meant = nearest(key, keys_of(model)) if model is not None else ""
            if meant and meant not in owner:
                owner[meant] = value
            return
        self.guessed.add(path)
        if kind == "missing":
            owner[key] = _placeholder(key)
        elif kind == "string_type" and path in self.document.plain and key in owner:
            owner[key] = self.document.plain[path] or _PLACEHOLDER
        elif self._required(path):
            owner[key] = _placeholder(key)
        else:
            owner.pop(key, None)

    def _required(self, path: KeyPath) -> bool:
        model = model_at(self.model, path[:-1])
        info = model.model_fields.get(str(path[-1])) if model is not None else None
        return info is not None and info.is_required()

    def _item(self, path: KeyPath) -> Value:
        model = model_at(self.model, path)
        if model is None:
            return _PLACEHOLDER
        return {name: f"{_PLACEHOLDER}-{path[-1]}" for name, info in model.model_fields.items() if info.is_required()}


def _placeholder(key: str) -> Value:
    return {"path": _PLACEHOLDER} if key == "repo" else _PLACEHOLDER


# --- schema introspection ----------------------------------------------------------------------------------------


def keys_of(model: type[BaseModel]) -> list[str]:
    return [info.alias or name for name, info in model.model_fields.items()]


def sections_of(model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    for name, info in model.model_fields.items():
        inner = _inner_model(info.annotation)
        if inner is not None:
            yield info.alias or name, inner


def model_at(model: type[BaseModel], path: KeyPath) -> type[BaseModel] | None:
    """Return the model of the mapping at `path`, or None if there is none."""
    current: type[BaseModel] | None = model
    for part in path:
        if isinstance(part, int):
            continue
        if current is None:
            return None
        info = next((info for name, info in current.model_fields.items() if part in {name, info.alias}), None)
        current = _inner_model(info.annotation) if info is not None else None
    return current


def _inner_model(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        if (model := _inner_model(argument)) is not None:
            return model
    return None
