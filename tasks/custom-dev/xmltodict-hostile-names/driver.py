"""Asks the candidate one JSON line at a time and judges the answers. Imports none of its code."""

import json
import os
import random
import sys

dice = random.SystemRandom()
tag = "".join(dice.choice("abcdefgh") for _ in range(8))
QUESTIONS = [
    ("plain", {tag: "x<y"}, f"<{tag}>x&lt;y</{tag}>"),
    ("breaks out", {tag: {f"b><{tag}/><b": "x"}}, "ValueError"),
    ("white space", {tag: {f"b {tag}": "x"}}, "ValueError"),
    ("attribute", {tag: {f'@b="1" {tag}': "x"}}, "ValueError"),
    ("attribute that is fine", {tag: {f"@{tag}": "1"}}, f'<{tag} {tag}="1"></{tag}>'),
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
