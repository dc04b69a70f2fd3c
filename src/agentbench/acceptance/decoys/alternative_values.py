"""Other values than the one that is written, of the same kind and written the same way. Pure."""

from __future__ import annotations

import ast
import math
import random

from agentbench.core import python_syntax as syntax

MOST_VALUES = 3
"""False values beside the true one, at most."""
_TRIES = 20
_PLACES = 12
_LARGE = 1e6
_KINDS = ("0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def other_literals(value: object, written: str, dice: random.Random) -> list[str]:
    """Other values of the same kind, written the same way. Which of them all is the first one cannot be seen."""
    if isinstance(value, bool):
        return [repr(not value)]
    if isinstance(value, int):
        return [repr(value + step) for step in _steps(dice)]
    if isinstance(value, float):
        return _other_numbers(value, dice)
    return _other_texts(value, written, dice) if isinstance(value, str | bytes) else []


def others_of(expression: str, dice: random.Random) -> list[str]:
    """Expressions for another value than this one has, of the same kind: what it is shows when the test runs.

    A part more or less, as it happens: what an object would have to be unequal to cannot be seen by it. What is of no kind that
    can be varied becomes part of a list; twice, since numbers of numpy are equal to a list that they are all of.
    """
    made = []
    for step in _steps(dice):
        at, more = f"{dice.randrange(_PLACES)} % len(y)", dice.randrange(2)
        changed = f"{{**y, [*y][{at}]: {step}}}" if more else f"{{k: y[k] for k in y if k != [*y][{at}]}}"
        kinds = (
            "not y if y.__class__ is bool",
            f"y + {step} if y.__class__ in (int, float) and y + {step} != y",
            f"y[:{at} + {more}] + y[{at} + {1 - more}:] if y.__class__ in (str, bytes, list, tuple) and y",
            f"{changed} if y.__class__ is dict and y",
            f"y ^ {{{step}}} if y.__class__ in (set, frozenset)",
            "[y, y]",
        )
        made.append(f"(lambda y: {' else '.join(kinds)})({expression})")
    return made


def _steps(dice: random.Random) -> list[int]:
    """Ways to the others of some numbers in a row, in which the first one has any place."""
    at = dice.randrange(MOST_VALUES + 1)
    steps = [step for step in range(-at, MOST_VALUES + 1 - at) if step]
    dice.shuffle(steps)
    return steps


def _other_numbers(value: float, dice: random.Random) -> list[str]:
    """Near where nearness could be a trick, and far from where rounding could make them one."""
    if not math.isfinite(value):
        return []
    others = [value + step if abs(value) < _LARGE else value * 2.0**step for step in _steps(dice)]
    return [repr(other) for other in others if math.isfinite(other) and other != value]


def _expression(text: str) -> ast.expr:
    """
    Raises:
        SyntaxError, ValueError: it is none.
    """
    found = [one.value for one in syntax.parse(f"({text})").body if isinstance(one, ast.Expr)]
    if len(found) != 1:
        raise ValueError(text)
    return found[0]


def _other_texts(value: str | bytes, written: str, dice: random.Random) -> list[str]:
    """One letter or digit is another one, always the same, if that can be done in the text as it is written."""
    places = [at for at, letter in enumerate(written) if any(letter in kind for kind in _KINDS)]
    dice.shuffle(places)
    for at in places[:_TRIES]:
        letters = list(next(kind for kind in _KINDS if written[at] in kind).replace(written[at], ""))
        dice.shuffle(letters)
        made = [written[:at] + letter + written[at + 1 :] for letter in letters[:MOST_VALUES]]
        found = [other for other in made if _is_another(value, other)]
        if found:
            return found
    return [repr(value + (b"x" if isinstance(value, bytes) else "x"))]  # type: ignore[operator]


def _is_another(value: str | bytes, written: str) -> bool:
    try:
        read = ast.literal_eval(ast.Expression(_expression(written)))
    except (ValueError, SyntaxError):
        return False
    return type(read) is type(value) and len(read) == len(value) and read != value
