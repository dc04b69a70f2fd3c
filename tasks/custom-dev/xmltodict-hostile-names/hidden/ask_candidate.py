"""Answers one JSON line for each it reads: the candidate's side of the probe."""

import json
import sys

import xmltodict


def answer(question):
    try:
        return xmltodict.unparse(question, full_document=False)
    except Exception as error:
        return type(error).__name__


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
