"""Asks the candidate's command for medians over its standard input and judges the answers. Imports none of its code."""

import json
import os
import random
import sys

QUESTIONS = [
    ("even", [1, 2, 3, 4], 2.5),
    ("odd", [5, 1, 3], 3.0),
    ("two", [1, 10], 5.5),
    ("negative", [-8, -2, -4, -6], -5.0),
]


def questions():
    yield from QUESTIONS
    # Unpredictable ones, so that no list of answers can have been written down beforehand.
    dice = random.SystemRandom()
    for number in range(4):
        middle = dice.sample(range(-1000, 1000), 2)  # different, or the upper one would be right too
        low = [dice.randrange(-5000, -1000) for _ in range(number + 1)]
        high = [dice.randrange(1000, 5000) for _ in range(number + 1)]
        values = low + middle + high
        dice.shuffle(values)
        yield f"random-{number}", values, sum(middle) / 2


def ask(values):
    try:
        # Straight to the descriptor: nothing may be left in a buffer when the candidate is gone.
        os.write(1, ("median " + " ".join(map(str, values)) + "\n").encode())
    except OSError:
        return None
    return sys.stdin.readline(4096).strip() or None


def judge(answer, expected):
    if answer is None:
        return "fail", "the candidate gave no answer"
    try:
        good = float(answer) == expected
    except ValueError:
        good = False
    return ("pass", "") if good else ("fail", f"expected {expected}, got {answer[:80]!r}")


def main():
    with os.fdopen(int(os.environ["AB_RESULT_FD"]), "w") as results:
        count = 0
        for name, values, expected in questions():
            outcome, why = judge(ask(values), expected)
            results.write(json.dumps({"id": name, "outcome": outcome, "why": why}) + "\n")
            count += 1
        results.write(json.dumps({"end": count}) + "\n")


main()
