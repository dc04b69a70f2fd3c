import pytest

from shelf import ShelfError, Stock
from shelf.prices import format_price, parse_price


@pytest.fixture
def stock():
    stock = Stock()
    stock.add("pencil", parse_price("0.50"), 10)
    stock.add("desk", parse_price("120"), 1)
    return stock


def test_value(stock):
    assert format_price(stock.value()) == "125.00"


def test_new_price_replaces_the_old_one(stock):
    stock.add("pencil", parse_price("0.75"), 2)
    assert format_price(stock.items["pencil"].value()) == "9.00"


def test_sell(stock):
    assert format_price(stock.sell("pencil", 4)) == "2.00"
    assert stock.items["pencil"].count == 6
    assert format_price(stock.takings) == "2.00"


def test_sell_with_discount(stock):
    assert format_price(stock.sell("desk", 1, discount_percent=25)) == "90.00"


@pytest.mark.parametrize("name, count", [("pen", 1), ("pencil", 11), ("pencil", 0)])
def test_what_cannot_be_sold(stock, name, count):
    with pytest.raises(ShelfError):
        stock.sell(name, count)


@pytest.mark.parametrize("text", ["cheap", "", "-1"])
def test_what_is_not_a_price(text):
    with pytest.raises(ShelfError):
        parse_price(text)
