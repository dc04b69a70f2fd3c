import inspect

import pytest

from invoices import Line, bill, make_bill, make_quote, quote
from invoices.tax import STANDARD, TaxTable

LINES = [Line("desk", "goods", 10000), Line("novel", "books", 2000), Line("banquet", "food", 20000), Line("parcel", "postage", 500)]


@pytest.mark.parametrize(
    "category, net, rate",
    [("goods", 1, 19), ("books", 10000, 7), ("books", 10001, 19), ("food", 10000, 7), ("food", 99999, 19), ("postage", 50000, 0)],
)
def test_standard_rates(category, net, rate):
    assert STANDARD.rate(category, net) == rate


@pytest.mark.parametrize("net, tax", [(50, 10), (2, 0), (3, 1), (10000, 1900)])
def test_tax_is_rounded_half_up(net, tax):
    assert STANDARD.tax("goods", net) == tax


def test_unknown_category_is_refused():
    with pytest.raises(KeyError):
        STANDARD.rate("toys", 100)


def test_own_table():
    table = TaxTable(general=25, reduced=12, reduced_categories=("food",), exempt_categories=("books", "postage"), limit=15000)
    assert table.rate("goods", 1) == 25
    assert table.rate("food", 15000) == 12
    assert table.rate("food", 15001) == 25
    assert table.rate("books", 15001) == 0


def test_bill_takes_a_table():
    table = TaxTable(general=50, reduced=10, reduced_categories=("books", "food"), exempt_categories=("postage",), limit=10000)
    assert make_bill(LINES, table=table)["by_category"] == {"goods": 5000, "books": 200, "food": 10000}


def test_quote_takes_a_table():
    table = TaxTable(general=50, reduced=10, reduced_categories=("books", "food"), exempt_categories=("postage",), limit=10000)
    assert make_quote(LINES, table=table)["tax"] == 15200


def test_standard_table_is_the_default():
    assert make_bill(LINES)["tax"] == make_bill(LINES, table=STANDARD)["tax"] == 5840
    assert make_quote(LINES)["tax"] == make_quote(LINES, table=STANDARD)["tax"] == 5840


@pytest.mark.parametrize("module", [bill, quote])
def test_rates_are_written_down_once(module):
    source = inspect.getsource(module)
    assert "19" not in source
    assert "10000" not in source
