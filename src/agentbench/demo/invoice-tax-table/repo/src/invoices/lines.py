"""Line items, and reading them."""

from dataclasses import dataclass

CATEGORIES = ("goods", "books", "food", "postage")


class InvoiceError(ValueError):
    """Input that no invoice can be made of."""


@dataclass(frozen=True)
class Line:
    text: str
    category: str
    cents: int
    quantity: int = 1

    @property
    def net(self):
        return self.cents * self.quantity


def read_lines(raw):
    """Lines from a list of dictionaries, as they come from JSON."""
    if not isinstance(raw, list) or not raw:
        raise InvoiceError("an invoice needs at least one line")
    lines = []
    for number, item in enumerate(raw, start=1):
        try:
            line = Line(item["text"], item["category"], item["cents"], item.get("quantity", 1))
        except (KeyError, TypeError, AttributeError):
            raise InvoiceError(f"line {number}: needs text, category and cents") from None
        if line.category not in CATEGORIES:
            raise InvoiceError(f"line {number}: unknown category {line.category!r}")
        if not isinstance(line.cents, int) or not isinstance(line.quantity, int) or line.quantity < 1:
            raise InvoiceError(f"line {number}: cents and quantity are whole numbers")
        lines.append(line)
    return lines
