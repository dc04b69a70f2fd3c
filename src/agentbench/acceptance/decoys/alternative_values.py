"""Generates other values than a written one, of the same type and written in the same style. Pure."""

from __future__ import annotations

import ast
import math
import random

from agentbench.core import python_syntax as syntax

MAX_VALUES = 3
"""Maximum number of wrong values for one real value."""
_MAX_ATTEMPTS = 20
_POSITIONS = 12
_LARGE_NUMBER = 1e6
_CHARACTER_CLASSES = ("0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def other_literals(value: object, source: str, rng: random.Random) -> list[str]:
    """Return other values of the same type in the same style, from which the real one cannot be distinguished."""
    if isinstance(value, bool):
        return [repr(not value)]
    if isinstance(value, int):
        return [repr(value + offset) for offset in _offsets(rng)]
    if isinstance(value, float):
        return _other_floats(value, rng)
    return _other_texts(value, source, rng) if isinstance(value, str | bytes) else []


def other_expressions(expression: str, rng: random.Random) -> list[str]:
    """Return expressions for another value of the same type, computed when the test runs.

    Parts are added or removed at random, so that an object cannot know what it would have to be unequal to. A value of
    any other type becomes an element of a list; twice, because numpy numbers are equal to a list that contains only
    them.
    """
    expressions = []
    for offset in _offsets(rng):
        position, added = f"{rng.randrange(_POSITIONS)} % len(y)", rng.randrange(2)
        changed = (
            f"{{**y, [*y][{position}]: {offset}}}" if added else f"{{k: y[k] for k in y if k != [*y][{position}]}}"
        )
        cases = (
            "not y if y.__class__ is bool",
            f"y + {offset} if y.__class__ in (int, float) and y + {offset} != y",
            f"y[:{position} + {added}] + y[{position} + {1 - added}:] if y.__class__ in (str, bytes, list, tuple) and y",
            f"{changed} if y.__class__ is dict and y",
            f"y ^ {{{offset}}} if y.__class__ in (set, frozenset)",
            "[y, y]",
        )
        expressions.append(f"(lambda y: {' else '.join(cases)})({expression})")
    return expressions


def _offsets(rng: random.Random) -> list[int]:
    """Return offsets to the other numbers of a small range in which the real one has a random position."""
    position = rng.randrange(MAX_VALUES + 1)
    offsets = [offset for offset in range(-position, MAX_VALUES + 1 - position) if offset]
    rng.shuffle(offsets)
    return offsets


def _other_floats(value: float, rng: random.Random) -> list[str]:
    """Return numbers close enough to be plausible and far enough that rounding does not make them equal."""
    if not math.isfinite(value):
        return []
    others = [value + offset if abs(value) < _LARGE_NUMBER else value * 2.0**offset for offset in _offsets(rng)]
    return [repr(other) for other in others if math.isfinite(other) and other != value]


def _other_texts(value: str | bytes, source: str, rng: random.Random) -> list[str]:
    """Change one letter or digit, always the same one, if that is possible in the text as written."""
    positions = [position for position, letter in enumerate(source) if letter in "".join(_CHARACTER_CLASSES)]
    rng.shuffle(positions)
    for position in positions[:_MAX_ATTEMPTS]:
        characters = next(characters for characters in _CHARACTER_CLASSES if source[position] in characters)
        letters = list(characters.replace(source[position], ""))
        rng.shuffle(letters)
        candidates = [source[:position] + letter + source[position + 1 :] for letter in letters[:MAX_VALUES]]
        others = [other for other in candidates if _is_other_value(value, other)]
        if others:
            return others
    return [repr(value + (b"x" if isinstance(value, bytes) else "x"))]  # type: ignore[operator]


def _is_other_value(value: str | bytes, source: str) -> bool:
    try:
        statement, *others = syntax.parse(f"({source})").body
        read = ast.literal_eval(statement.value) if isinstance(statement, ast.Expr) and not others else None
    except (ValueError, SyntaxError):
        return False
    return type(read) is type(value) and len(read) == len(value) and read != value
