"""`python -m invoices`: one JSON request per line on standard input, one JSON answer per line."""

import json
import sys

from invoices import InvoiceError, make_bill, make_quote, read_lines


def answer(request):
    lines = read_lines(request.get("lines"))
    if request.get("kind") == "quote":
        return make_quote(lines, request.get("discount_percent", 0))
    if request.get("kind") == "bill":
        return make_bill(lines)
    raise InvoiceError("kind must be quote or bill")


def main():
    for text in sys.stdin:
        if not text.strip():
            continue
        try:
            result = answer(json.loads(text))
        except (InvoiceError, json.JSONDecodeError) as error:
            result = {"error": str(error)}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
