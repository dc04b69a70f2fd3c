"""Asks the candidate one JSON line at a time and judges the answers. Imports none of its code."""

import json
import os
import random
import sys

dice = random.SystemRandom()
one, two = ("".join(dice.choice("bcdfghjkl") for _ in range(6)) for _ in range(2))
number = dice.randrange(1000, 9999)


def get(name, there, path, expected):
    return name, {"call": "get", "object": there, "path": path, "value": number}, expected


def put(name, there, path, expected):
    return name, {"call": "set", "object": there, "path": path, "value": number, "polluted": two}, expected


def refused(name, path):
    return put(name, {one: {}}, path, {"error": "TypeError", "object": {one: {}}, "polluted": None})


QUESTIONS = [
    get("zero", {one: {two: 0}}, f"{one}.{two}", 0),
    get("false", {one: [False]}, f"{one}[0]", False),
    get("empty text", {one: ""}, one, ""),
    get("through a text", {one: ""}, f"{one}.length", 0),
    get("null", {one: None}, one, number),
    get("through null", {one: None}, f"{one}.{two}", number),
    get("nothing there", {}, f"{one}.{two}", number),
    get("usual", {one: [{two: number + 1}]}, f"{one}[0].{two}", number + 1),
    put("made on the way", {}, f"{one}[0].{two}", {one: [{two: number}]}),
    put("name that only looks unsafe", {}, f"constructor{one}", {f"constructor{one}": number}),
    refused("first", f"__proto__.{two}"),
    refused("in between", f"{one}.constructor.prototype.{two}"),
    refused("last", f"{one}.__proto__"),
    refused("constructor", f"{one}.constructor"),
    refused("prototype", f"{one}.prototype.{two}"),
    refused("after something that would be made", f"{two}.{one}.__proto__"),
    get("nobody was polluted", {}, two, number),
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
        found = json.loads(answer)
    except ValueError:
        found = answer
    # 0 and False are the same to Python, and not to JavaScript.
    good = json.dumps(found, sort_keys=True) == json.dumps(expected, sort_keys=True)
    return ("pass", "") if good else ("fail", f"expected {expected!r}, got {answer[:80]!r}")


with os.fdopen(int(os.environ["AB_RESULT_FD"]), "w") as results:
    for name, question, expected in QUESTIONS:
        outcome, why = judge(ask(question), expected)
        results.write(json.dumps({"id": name, "outcome": outcome, "why": why}) + "\n")
    results.write(json.dumps({"end": len(QUESTIONS)}) + "\n")
