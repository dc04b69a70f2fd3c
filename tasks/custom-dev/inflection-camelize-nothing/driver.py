"""Asks the candidate one JSON line at a time and judges the answers. Imports none of its code."""

import json
import os
import random
import sys

dice = random.SystemRandom()
word = "".join(dice.choice("bcdfghjkl") for _ in range(6))
QUESTIONS = [
    ("nothing", "", ""),
    ("underscore first", f"_{word}_name", f"_{word}Name"),
    ("usual", f"{word}_name", f"{word}Name"),
    ("one letter", word[0], word[0]),
]


def ask(question):
    try:
        # Straight to the descriptor: nothing may be left in a buffer when the candidate is gone.
        os.write(1, (json.dumps(question) + "\n").encode())
    except OSError:
        return None
    return sys.stdin.readline(65536).strip() or None


def judge(answer, expected):
    if answer is None:
        return "fail", "the candidate gave no answer"
    try:
        good = json.loads(answer) == expected
    except ValueError:
        good = False
    return ("pass", "") if good else ("fail", f"expected {expected!r}, got {answer[:80]!r}")


with os.fdopen(int(os.environ["AB_RESULT_FD"]), "w") as results:
    for name, question, expected in QUESTIONS:
        outcome, why = judge(ask(question), expected)
        results.write(json.dumps({"id": name, "outcome": outcome, "why": why}) + "\n")
    results.write(json.dumps({"end": len(QUESTIONS)}) + "\n")
