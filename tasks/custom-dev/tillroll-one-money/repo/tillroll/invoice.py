"""Invoices: one line for each item, and what is to be paid."""


def render_invoice(items, currency="EUR"):
    lines = []
    total = 0
    for name, cents in items:
        total += cents
        if currency == "JPY":
            text = f"{abs(cents):,}".replace(",", ".")
        else:
            text = f"{abs(cents) // 100:,}".replace(",", ".") + f",{abs(cents) % 100:02d}"
        sign = "-" if cents < 0 else ""
        lines.append(f"{name}: {sign}{text} {currency}")
    if currency == "JPY":
        text = f"{abs(total):,}".replace(",", ".")
    else:
        text = f"{abs(total) // 100:,}".replace(",", ".") + f",{abs(total) % 100:02d}"
    sign = "-" if total < 0 else ""
    lines.append(f"To pay: {sign}{text} {currency}")
    return "\n".join(lines)
