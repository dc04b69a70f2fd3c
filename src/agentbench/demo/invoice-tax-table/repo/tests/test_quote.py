from invoices import Line, make_quote


def test_without_discount():
    quote = make_quote([Line("desk", "goods", 10000), Line("bread", "food", 400)])
    assert quote == {"kind": "quote", "net": 10400, "tax": 1928, "gross": 12328, "valid_days": 30}


def test_discount_comes_before_tax():
    quote = make_quote([Line("desk", "goods", 10000)], discount_percent=10)
    assert (quote["net"], quote["tax"], quote["valid_days"]) == (9000, 1710, 14)


def test_discount_can_bring_a_line_below_the_limit():
    assert make_quote([Line("atlas", "books", 11000)], discount_percent=10)["tax"] == 693
