"""Daily reports for the bookkeeper, who wants losses in parentheses."""


def _money(cents, currency):
    size = abs(cents)
    digits = str(size if currency == "JPY" else size // 100)
    groups = []
    while digits:
        groups.insert(0, digits[-3:])
        digits = digits[:-3]
    text = ".".join(groups)
    if currency != "JPY":
        text += "," + str(size % 100).zfill(2)
    text = f"{text} {currency}"
    return f"({text})" if cents < 0 else text


def render_report(days, currency="EUR"):
    rows = [f"{day} {_money(cents, currency)}" for day, cents in sorted(days.items())]
    return "\n".join([*rows, f"sum {_money(sum(days.values()), currency)}"])
