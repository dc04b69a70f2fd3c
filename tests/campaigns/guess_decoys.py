"""Measures how often simple rules recognise the real version of a test when they see both versions.

    python tests/campaigns/guess_decoys.py FOLDER…

Reads every test file below the folders, mutates its tests and applies each rule to each pair of values. 50% is chance.
A real attacker sees one version at a time, so these numbers are an upper bound for the rules.
"""

# ruff: noqa: T201
from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agentbench.acceptance.decoys.mutate import find_mutations
from agentbench.acceptance.decoys.mutation import Mutation
from agentbench.acceptance.decoys.source_file import SourceFile


@dataclass(frozen=True)
class Pair:
    """The real and a wrong literal, and the other literals of the file and of the test."""

    real: str
    wrong: str
    others: Counter[str]
    in_test: Counter[str]
    words: Counter[str]


Score = Callable[[str, Pair], float]


def number(text: str) -> float | None:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def smaller(text: str, _: Pair) -> float:
    return -abs(number(text) or 0)


def rounder(text: str, _: Pair) -> float:
    digits = text.rstrip("0.")
    return len(text) - len(digits) + 0.5 * digits.endswith("5")


def occurs_elsewhere(text: str, pair: Pair) -> float:
    return float(pair.others[text])


def occurs_elsewhere_in_the_test(text: str, pair: Pair) -> float:
    return float(pair.in_test[text] > 0)


def words_occur_elsewhere(text: str, pair: Pair) -> float:
    words = re.findall(r"[A-Za-z]{2,}", text)
    return sum(min(pair.words[word.lower()], 3) for word in words) / (len(words) or 1)


def pronounceable(text: str, _: Pair) -> float:
    return -len(re.findall(r"[bcdfghjklmnpqrstvwxz]{4}|[aeiou]{3}|[jqxz]", text.lower()))


RULES: dict[str, Score] = {
    "smaller number": smaller,
    "rounder number": rounder,
    "occurs elsewhere": occurs_elsewhere,
    "occurs elsewhere in test": occurs_elsewhere_in_the_test,
    "its words occur elsewhere": words_occur_elsewhere,
    "pronounceable": pronounceable,
}


def combined(text: str, pair: Pair) -> float:
    """Decide by the first rule that sees a difference, the strongest one first."""
    in_test = occurs_elsewhere_in_the_test(text, pair)
    return (
        in_test * 1000
        + words_occur_elsewhere(text, pair) * 100
        + occurs_elsewhere(text, pair) * 10
        + rounder(text, pair)
    )


def pairs_of(source: bytes) -> Iterator[tuple[Mutation, Pair]]:
    try:
        file = SourceFile(source)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return
    tests = [place for place in file.functions if place[-1].startswith("test")]
    literals = Counter(file.text(node) for node in file.constants)
    words = Counter(word.lower() for text in literals.elements() for word in re.findall(r"[A-Za-z]{2,}", text))
    for place, by_row in find_mutations(source, tests, "guess").items():
        constants = (node for part in file.functions[place].body for node in ast.walk(part))
        in_test = Counter(file.text(node) for node in constants if isinstance(node, ast.Constant))
        for mutation in by_row.values():
            if mutation.kind == "value":
                others = literals - Counter([mutation.original])
                own = Counter(word.lower() for word in re.findall(r"[A-Za-z]{2,}", mutation.original))
                yield (
                    mutation,
                    Pair(
                        mutation.original,
                        mutation.replacements[0],
                        others,
                        in_test - Counter([mutation.original]),
                        words - own,
                    ),
                )


def main() -> None:
    pairs = [
        pair
        for folder in sys.argv[1:]
        for path in sorted(Path(folder).rglob("*test*.py"))
        for _, pair in pairs_of(path.read_bytes())
    ]
    print(f"{len(pairs)} pairs")
    for name, rule in {**RULES, "combined": combined}.items():
        scores = [rule(pair.real, pair) - rule(pair.wrong, pair) for pair in pairs]
        seen = [score for score in scores if score]
        right = sum(score > 0 for score in seen)
        overall = (right + 0.5 * (len(scores) - len(seen))) / len(scores)
        differs = f"differs in {len(seen) / len(scores):4.0%} of pairs"
        print(f"{name:26} {differs}, right in {right / (len(seen) or 1):4.0%} of these, {overall:4.0%} of all pairs")


if __name__ == "__main__":
    main()
