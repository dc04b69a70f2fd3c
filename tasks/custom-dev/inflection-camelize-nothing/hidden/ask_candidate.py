"""Answers one JSON line for each it reads: the candidate's side of the probe."""

import json
import sys

import inflection


def answer(question):
    try:
        return inflection.camelize(question, False)
    except Exception as error:
        return type(error).__name__


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
