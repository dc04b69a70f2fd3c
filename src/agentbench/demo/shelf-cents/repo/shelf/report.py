"""The stock as a table."""

from shelf.prices import format_price


def report(stock):
    """One line per item, dearest stock first, then the sums."""
    rows = [("item", "price", "count", "value")]
    for item in sorted(stock.items.values(), key=lambda item: (-item.value(), item.name)):
        rows.append((item.name, format_price(item.price), str(item.count), format_price(item.value())))
    rows.append(("total", "", "", format_price(stock.value())))
    rows.append(("takings", "", "", format_price(stock.takings)))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = []
    for name, *numbers in rows:
        cells = [name.ljust(widths[0])] + [text.rjust(width) for text, width in zip(numbers, widths[1:])]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"
