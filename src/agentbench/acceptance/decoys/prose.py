"""Tells whether words say a value, however they write it. Pure.

A value that the test says in words stays: a wrong value would differ from what the words still say. Code under test
reads names as easily as texts, so `test_gives404`, `test_hello_world` and `test_three_items` say `404`, `"Hello World"`
and `3`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

_PARTS = re.compile(
    r"0[xX][0-9a-fA-F]+|[0-9]+(?:[_,][0-9]{3})*(?:\.[0-9]+)?|[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+"
).findall
"""Numbers and words, also of names: `testGives404`, `HTTPError`."""
_NUMBERS = {
    word: number
    for number, word in enumerate(
        (
            *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
            *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
            "twenty",
        )
    )
}
_MAX_DIGITS = 100
"""Longer numbers are compared as they are written."""


def word_of(value: object, text: str) -> str:
    """Return how words say a value that is written as `text`."""
    return value if isinstance(value, str) else text


def occurrences(word: str, text: str) -> int:
    """Return how often a text contains a word, as a whole word or between underscores."""
    return len(re.findall(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])", text)) if word else 0


def says(text: str, word: str) -> bool:
    """Return whether a text says a word, whatever its case, its separators and how numbers in it are written."""
    wanted, parts = tuple(_spoken(word)), _spoken_of(text)
    is_said = any(parts[at : at + len(wanted)] == wanted for at in range(len(parts) - len(wanted) + 1))
    return (bool(wanted) and is_said) or bool(occurrences(word, text))


@lru_cache(maxsize=4)
def _spoken_of(text: str) -> tuple[str | float, ...]:
    """Return the words of a test, which are searched for each of its values."""
    return tuple(_spoken(text))


def _spoken(text: str) -> Iterator[str | float]:
    """Yield the words and numbers of a text in one way of writing."""
    for part in _PARTS(text):
        word = part.casefold()
        if word in _NUMBERS:
            yield float(_NUMBERS[word])
        elif part[0].isdigit() and part.isascii() and len(part) <= _MAX_DIGITS:
            yield _number(part)
        else:
            yield word


def _number(text: str) -> float:
    plain = text.replace("_", "").replace(",", "")
    return float(int(plain, 16)) if plain[:2] in {"0x", "0X"} else float(plain)


def names_of(place: tuple[str, ...]) -> str:
    """Return the names of a test and of the classes that it is in."""
    return " ".join(place).replace("_", " ")


def descriptions(test: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    """Yield what describes a test or a part of it to readers: arguments of `subTest` and of marks without rows."""
    for node in ast.walk(test):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "subTest":
            yield from node.args
    for decorator in test.decorator_list:
        if not isinstance(decorator, ast.Call):
            continue
        is_table = isinstance(decorator.func, ast.Attribute) and decorator.func.attr == "parametrize"
        yield from decorator.args[3:] if is_table else decorator.args
