"""Receipts: what was given and what was given back."""


def _amount(value, currency):
    sign = "-" if value < 0 else ""
    if currency == "JPY":
        return sign + f"{abs(value):,}".replace(",", ".") + " " + currency
    whole, part = divmod(abs(value), 100)
    return f"{sign}{whole:,}".replace(",", ".") + f",{part:02d} {currency}"


def render_receipt(total, given, currency="EUR"):
    return f"Total {_amount(total, currency)}\nGiven {_amount(given, currency)}\nBack {_amount(given - total, currency)}"
