from tillroll import render_invoice, render_receipt, render_report


def test_invoice():
    assert render_invoice([("tea", 1250), ("voucher", -300)]) == "tea: 12,50 EUR\nvoucher: -3,00 EUR\nTo pay: 9,50 EUR"


def test_receipt():
    assert render_receipt(123456, 130000) == "Total 1.234,56 EUR\nGiven 1.300,00 EUR\nBack 65,44 EUR"


def test_report():
    assert render_report({"tue": -505, "mon": 100}) == "mon 1,00 EUR\ntue (5,05 EUR)\nsum (4,05 EUR)"
