"""Answers one JSON line for each it reads: the candidate's side of the probe."""

import json
import sys

import humanize


def answer(question):
    try:
        return humanize.naturalsize(question)
    except Exception as error:
        return type(error).__name__


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
