"""Bills: what is owed, with the tax of each category."""


def make_bill(lines):
    net = 0
    by_category = {}
    for line in lines:
        net += line.net
        if line.category in ("books", "food"):
            if line.net > 10000:
                rate = 19
            else:
                rate = 7
        elif line.category == "goods":
            rate = 19
        else:
            rate = 0
        tax = (line.net * rate + 50) // 100
        if rate:
            if line.category not in by_category:
                by_category[line.category] = 0
            by_category[line.category] += tax
    total = 0
    for category in by_category:
        total += by_category[category]
    return {"kind": "bill", "net": net, "tax": total, "gross": net + total, "by_category": by_category}
