"""Sends invoices to the candidate's command and compares the answers with an implementation of its own."""

import json
import os
import random
import sys

RATES = {"goods": 19, "books": 7, "food": 7, "postage": 0}


def tax_of(category, net):
    rate = RATES[category]
    if rate == 7 and net > 10000:
        rate = 19
    return (net * rate + 50) // 100


def expected(request):
    net, tax, by_category = 0, 0, {}
    discount = request.get("discount_percent", 0)
    for line in request["lines"]:
        amount = line["cents"] * line.get("quantity", 1)
        if request["kind"] == "quote":
            amount -= (amount * discount + 50) // 100
        part = tax_of(line["category"], amount)
        net, tax = net + amount, tax + part
        if RATES[line["category"]]:
            by_category[line["category"]] = by_category.get(line["category"], 0) + part
    answer = {"kind": request["kind"], "net": net, "tax": tax, "gross": net + tax}
    if request["kind"] == "bill":
        answer["by_category"] = by_category
    else:
        answer["valid_days"] = 14 if discount else 30
    return answer


def requests():
    dice = random.SystemRandom()
    for number in range(12):
        kind = ("bill", "quote")[number % 2]
        lines = [
            {"text": f"item {index}", "category": dice.choice(list(RATES)), "cents": dice.choice((50, 9999, 10000, 10001, dice.randrange(1, 30000)))}
            for index in range(1 + number // 2)
        ]
        request = {"kind": kind, "lines": lines}
        if kind == "quote" and number % 4 == 3:
            request["discount_percent"] = dice.randrange(1, 60)
        yield f"{kind}-{number}", request, expected(request)
    yield "empty", {"kind": "bill", "lines": []}, {"error": "an invoice needs at least one line"}
    yield "kind", {"kind": "gift", "lines": [{"text": "a", "category": "goods", "cents": 1}]}, {"error": "kind must be quote or bill"}


def ask(request):
    try:
        # Straight to the descriptor: nothing may be left in a buffer when the candidate is gone.
        os.write(1, (json.dumps(request) + "\n").encode())
    except OSError:
        return None
    try:
        return json.loads(sys.stdin.readline(65536))
    except ValueError:
        return None


def main():
    with os.fdopen(int(os.environ["AB_RESULT_FD"]), "w") as results:
        count = 0
        for name, request, wanted in requests():
            answer = ask(request)
            good = answer == wanted
            why = "" if good else f"{json.dumps(request)[:200]}: expected {wanted}, got {answer}"[:600]
            results.write(json.dumps({"id": name, "outcome": "pass" if good else "fail", "why": why}) + "\n")
            count += 1
        results.write(json.dumps({"end": count}) + "\n")


main()
