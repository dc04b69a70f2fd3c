"""The line protocol of the command: one request in, one answer out."""

from toystats import core

_SIMPLE = {"mean": core.mean, "median": core.median, "mode": core.mode, "spread": core.spread}


def number(text):
    """An int where the text is one, else a float."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def answer(line):
    """The answer to one request line."""
    name, *words = line.split()
    try:
        values = [number(word) for word in words]
    except ValueError:
        return "error: values must be numbers"
    try:
        if name == "quantile":
            if not values:
                return "error: quantile needs a fraction"
            return str(core.quantile(values[1:], values[0]))
        if name in _SIMPLE:
            return str(_SIMPLE[name](values))
    except ValueError as error:
        return f"error: {error}"
    return f"error: unknown request {name}"
