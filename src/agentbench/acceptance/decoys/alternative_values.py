"""Generates other literals than a written one, of the same type and in the same style. Pure.

The real value must not stand out: a wrong value is drawn as if it were another test's expected value. It keeps what
catches the eye: the number of digits, round endings, capital letters, vowels, the words of a text.
"""

from __future__ import annotations

import ast
import math
import random
import re
from collections.abc import Iterator

from agentbench.core import python_syntax as syntax

_SMALL = 20
"""Numbers up to this one are drawn by how often tests expect them; larger ones change a digit."""
_MAX_SIGNIFICANT = 3
"""Digits of a float that may change, so that no tolerance makes the two equal."""
_TOLERANCE = 1e-4
"""Relative difference below which two floats may be compared as equal."""
_STATUS_CODES = (200, 201, 204, 301, 302, 304, 400, 401, 403, 404, 405, 409, 410, 422, 500, 502, 503)
_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}|[0-7]{1,3}|.)", re.DOTALL)
_PREFIX = re.compile(r"[a-zA-Z]*(?=['\"])")
_WORD = re.compile(r"[A-Za-z]{3,}")
_WORD_CHARACTERS = re.compile(r"\w")
_DIGITS = re.compile(r"[0-9]+")
_LETTER_CLASSES = ("aeiou", "bcdfghklmnprstvw", "jqxyz", "AEIOU", "BCDFGHKLMNPRSTVW", "JQXYZ")
_MAX_EDITS = 12


def other_literals(value: object, source: str, rng: random.Random, *, searched: bool = False) -> Iterator[str]:
    """Yield other literals for a value that is written as `source`, the best ones first.

    A text that is `searched` for in a longer one keeps its numbers: an honest message may contain it with others too.
    """
    if isinstance(value, bool):
        yield repr(not value)
    elif isinstance(value, int):
        yield from _other_integers(value, source, rng)
    elif isinstance(value, float):
        others = _other_floats(value, source, rng)
        yield from (text for text in others if not math.isclose(float(text), value, rel_tol=_TOLERANCE))
    elif isinstance(value, str | bytes):
        yield from (text for text in _other_texts(source, rng, numbers=not searched) if _is_other_value(value, text))
        if not value:
            yield from (f"{source[:-1]}{letter}{source[-1]}" for letter in rng.sample("a0 -x1", 3))


def is_alike(value: object, source: str, other: str) -> bool:
    """Return whether another literal has another value, of the same type and written in the same style."""
    try:
        read = ast.literal_eval(other)
    except (ValueError, SyntaxError):
        return False
    if type(read) is not type(value) or read == value:
        return False
    if isinstance(value, str | bytes):
        if _differs_in_style(value, read):
            return False
        similar_length = abs(len(other) - len(source)) <= max(3, len(source) // 2)
        marks = [set(_WORD_CHARACTERS.sub("", text)) for text in (source, other)]
        return bool(read) == bool(value) and similar_length and marks[0] == marks[1]
    return len(other) == len(source) or isinstance(value, float)


# --- numbers ----------------------------------------------------------------------------------------------------------


def _other_integers(value: int, source: str, rng: random.Random) -> Iterator[str]:
    if not source.isdigit():
        yield from _other_digits(source, rng)
    elif value <= _SMALL:
        yield from (str(number) for number in _small_numbers(value, rng))
    else:
        family = _family(value)
        rng.shuffle(family)
        yield from (str(number) for number in family)
        yield from _other_digits(source, rng)


def _small_numbers(value: int, rng: random.Random) -> Iterator[int]:
    """Yield numbers in the order in which they might have been drawn: small ones are expected more often."""
    numbers = [number for number in range(max(10, value + 5)) if number != value and (number > 9) is (value > 9)]
    if value in (0, 1):
        numbers = [1 - value, 2, 3, 4]
    yield from sorted(numbers, key=lambda number: -(rng.random() ** (number + 1.0)))


def _family(value: int) -> list[int]:
    """Return numbers that are special in the same way."""
    for offset in (0, 1, -1):
        power = value + offset
        if power > _SMALL and power & (power - 1) == 0:
            return [number - offset for number in (power // 4, power // 2, power * 2, power * 4)]
    text = str(value)
    if len(set(text)) == 1:
        return [int(digit * len(text)) for digit in "123456789" if digit != text[0]]
    if text in "123456789":
        return [int("123456789"[at : at + len(text)]) for at in range(10 - len(text)) if "123456789"[at] != text[0]]
    return [code for code in _STATUS_CODES if code != value] if value in _STATUS_CODES else []


def _other_digits(source: str, rng: random.Random, last: int | None = None) -> Iterator[str]:
    """Change one digit. Zeros stay, and so does a five at the end: both make a number round."""
    digits = "0123456789abcdef" if source[:2].lower() == "0x" else "01" if source[:2].lower() == "0b" else "0123456789"
    first = 2 if source[:2].lower() in {"0x", "0b", "0o"} else 0
    places = [at for at, digit in enumerate(source) if at >= first and digit in digits[1:]][:last]
    if len(places) > 1 and source[places[-1]] == "5" and places[-1] == len(source) - 1:
        places.pop()
    if len(places) > 2:
        places = places[1:]  # people choose the first digit with more care
    rng.shuffle(places)
    for at in places:
        others = ["0"] if digits == "01" else [digit for digit in digits[1:] if digit not in {source[at], "5"}]
        rng.shuffle(others)
        yield from (source[:at] + digit + source[at + 1 :] for digit in others)


def _other_floats(value: float, source: str, rng: random.Random) -> Iterator[str]:
    """Yield numbers far enough away that rounding does not make them equal."""
    if not math.isfinite(value):
        return
    whole, point, rest = source.partition(".")
    if whole.isdigit() and "e" not in rest.lower() and (rest.strip("0") in {"", "5", "25", "75"} or len(whole) > 2):
        yield from (
            f"{number}{point}{rest}"
            for number in _other_integers(int(whole), whole, rng)
            if number != "0" or rest.strip("0")
        )
    else:
        mantissa, exponent, power = source.partition("e")
        yield from (
            f"{other}{exponent}{power}" for other in _other_digits(mantissa, rng, _MAX_SIGNIFICANT) if float(other)
        )


# --- texts ------------------------------------------------------------------------------------------------------------


def _other_texts(source: str, rng: random.Random, *, numbers: bool) -> Iterator[str]:
    """Yield texts with two words exchanged, then with another number, then with another letter."""
    start = len(prefix[0]) if (prefix := _PREFIX.match(source)) else 0
    body = source if "r" in source[:start].lower() else _ESCAPE.sub(lambda found: "\0" * len(found[0]), source)
    body = "\0" * start + body[start:]
    for edits in (_exchanged_words(body, rng), _other_runs(body, rng) if numbers else (), _other_letters(body, rng)):
        for start, end, text in edits:
            yield source[:start] + text + source[end:]


Edit = tuple[int, int, str]


def _exchanged_words(body: str, rng: random.Random) -> Iterator[Edit]:
    """Exchange two words of one style: the text then has the same words as the real one."""
    words = [match.span() for match in _WORD.finditer(body)]
    pairs = [
        (left, right)
        for at, left in enumerate(words[:_MAX_EDITS])
        for right in words[at + 1 : _MAX_EDITS]
        if body[slice(*left)].lower() != body[slice(*right)].lower()
        and _style(body[slice(*left)]) == _style(body[slice(*right)])
    ]
    rng.shuffle(pairs)
    for (left, left_end), (right, right_end) in pairs:
        between = body[left_end:right]
        if "\0" not in between:
            yield left, right_end, body[right:right_end] + between + body[left:left_end]


def _style(word: str) -> tuple[bool, bool]:
    return word[0].isupper(), word[1:].islower()


def _other_runs(body: str, rng: random.Random) -> Iterator[Edit]:
    """Change one number in a text. Months, days, hours and minutes stay valid."""
    runs = [(match.start(), match[0]) for match in _DIGITS.finditer(body)]
    rng.shuffle(runs)
    for start, run in runs:
        number = int(run)
        if len(run) == 2:
            low, high = next(span for span in ((0, 12), (13, 28), (29, 59), (60, 99)) if span[0] <= number <= span[1])
            others = [
                f"{other:02}"
                for other in range(low, high + 1)
                if other not in {0, number} and (other > 9) is (number > 9)
            ]
            rng.shuffle(others)
        elif len(run) == 1:
            others = [str(other) for other in _small_numbers(number, rng) if other < 10]
        else:
            others = list(_other_digits(run, rng))
        yield from ((start, start + len(run), other) for other in others)


def _other_letters(body: str, rng: random.Random) -> Iterator[Edit]:
    """Change one letter into another of its class, in the middle of a word if possible."""
    places = [at for at, letter in enumerate(body) if letter.isalpha() and letter.isascii()]
    inner = [at for at in places if at - 1 in places and at + 1 in places]
    places = inner if len(inner) > 1 else places
    rng.shuffle(places)
    for at in places[:_MAX_EDITS]:
        letters = next(letters for letters in _LETTER_CLASSES if body[at] in letters)
        others = [letter for letter in letters if letter != body[at]]
        rng.shuffle(others)
        yield from ((at, at + 1, letter) for letter in others)


def _differs_in_style(value: str | bytes, other: object) -> bool:
    """Return whether two texts differ at most in case and spaces. A correct solution may return texts that ignore these."""
    if isinstance(value, str) and isinstance(other, str):
        return "".join(value.casefold().split()) == "".join(other.casefold().split())
    return isinstance(value, bytes) and isinstance(other, bytes) and value.lower().split() == other.lower().split()


def _is_other_value(value: str | bytes, source: str) -> bool:
    try:
        statement, *others = syntax.parse(f"({source})").body
        read = ast.literal_eval(statement.value) if isinstance(statement, ast.Expr) and not others else None
    except (ValueError, SyntaxError):
        return False
    is_other = type(read) is type(value) and len(read) == len(value) and read != value
    return is_other and not _differs_in_style(value, read)
