"""Prices as people write them."""

from shelf.errors import ShelfError


def parse_price(text):
    """A price from its text."""
    try:
        price = float(text)
    except ValueError:
        raise ShelfError(f"not a price: {text!r}") from None
    if price < 0:
        raise ShelfError(f"a price cannot be negative: {text!r}")
    return price


def format_price(price):
    """A price as text."""
    return f"{price:.2f}"
