from invoices import Line, make_bill


def test_rates():
    bill = make_bill([Line("desk", "goods", 10000), Line("novel", "books", 2000), Line("parcel", "postage", 500)])
    assert bill == {
        "kind": "bill",
        "net": 12500,
        "tax": 2040,
        "gross": 14540,
        "by_category": {"goods": 1900, "books": 140},
    }


def test_expensive_books_carry_the_general_rate():
    assert make_bill([Line("first edition", "books", 10001)])["tax"] == 1900


def test_half_a_cent_is_rounded_up():
    assert make_bill([Line("nail", "goods", 50)])["tax"] == 10


def test_quantity_counts_for_the_limit():
    assert make_bill([Line("cake", "food", 4000, quantity=3)])["tax"] == 2280
