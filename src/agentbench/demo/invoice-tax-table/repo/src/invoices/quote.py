"""Quotes: what it would cost, with a discount and a note how long it holds."""


def make_quote(lines, discount_percent=0):
    net = 0
    tax = 0
    for line in lines:
        amount = line.net
        if discount_percent:
            off = (amount * discount_percent + 50) // 100
            amount = amount - off
        net += amount
        # general rate
        if line.category == "goods":
            tax += (amount * 19 + 50) // 100
        # reduced rate, but not for expensive lines
        elif line.category == "books" or line.category == "food":
            if amount > 10000:
                tax += (amount * 19 + 50) // 100
            else:
                tax += (amount * 7 + 50) // 100
        elif line.category == "postage":
            tax += 0
    return {"kind": "quote", "net": net, "tax": tax, "gross": net + tax, "valid_days": 30 if discount_percent == 0 else 14}
