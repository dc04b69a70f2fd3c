"""The command `shelf`."""

import sys

from shelf.errors import ShelfError
from shelf.prices import format_price, parse_price
from shelf.report import report
from shelf.store import load, save

USAGE = """usage: shelf add FILE NAME PRICE COUNT
       shelf sell FILE NAME COUNT [DISCOUNT_PERCENT]
       shelf report FILE"""


def _whole(text):
    try:
        return int(text)
    except ValueError:
        raise ShelfError(f"not a whole number: {text!r}") from None


def _do(command, path, arguments):
    stock = load(path)
    if command == "add" and len(arguments) == 3:
        name, price, count = arguments
        stock.add(name, parse_price(price), _whole(count))
        save(stock, path)
        return ""
    if command == "sell" and len(arguments) in (2, 3):
        name, count, *discount = arguments
        amount = stock.sell(name, _whole(count), _whole(discount[0]) if discount else 0)
        save(stock, path)
        return format_price(amount) + "\n"
    if command == "report" and not arguments:
        return report(stock)
    raise ShelfError(USAGE)


def run(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        if len(arguments) < 2:
            raise ShelfError(USAGE)
        command, path, *rest = arguments
        sys.stdout.write(_do(command, path, rest))
    except ShelfError as error:
        print(error, file=sys.stderr)
        return 1
    return 0
