import json

import pytest

from shelf import Item, ShelfError, Stock, load, save
from shelf.cli import run
from shelf.prices import format_price, parse_price


@pytest.mark.parametrize(
    "text, cents", [("3", 300), ("0.35", 35), ("12.5", 1250), ("0.29", 29), ("1.10", 110), (" 2.05 ", 205), ("1000000.01", 100000001)]
)
def test_prices_are_whole_cents(text, cents):
    price = parse_price(text)
    assert price == cents
    assert type(price) is int


@pytest.mark.parametrize("text", ["0.355", "1e3", "nan", "inf", "1,50", ".", "1.", ".5", "--1", "-0.01", "1_000", "٣"])
def test_other_texts_are_refused(text):
    with pytest.raises(ShelfError):
        parse_price(text)


@pytest.mark.parametrize("cents, text", [(0, "0.00"), (5, "0.05"), (35, "0.35"), (12345, "123.45"), (100000001, "1000000.01")])
def test_formatting(cents, text):
    assert format_price(cents) == text


def test_sums_are_exact():
    stock = Stock()
    for _ in range(10):
        stock.add("sweet", parse_price("0.10"), 1)
        stock.sell("sweet", 1)
    assert stock.takings == 100
    assert type(stock.takings) is int


@pytest.mark.parametrize("price, count, percent, amount", [("0.35", 1, 10, 32), ("0.05", 1, 50, 3), ("0.99", 3, 33, 199), ("1.00", 1, 100, 0)])
def test_discounted_amount_is_rounded_half_up_once(price, count, percent, amount):
    stock = Stock()
    stock.add("thing", parse_price(price), count)
    assert stock.sell("thing", count, discount_percent=percent) == amount


def test_new_files_hold_cents(tmp_path):
    stock = Stock()
    stock.add("pencil", parse_price("0.35"), 3)
    stock.sell("pencil", 1)
    save(stock, tmp_path / "stock.json")
    document = json.loads((tmp_path / "stock.json").read_text())
    assert document["version"] == 2
    assert document["takings_cents"] == 35
    assert document["items"] == [{"name": "pencil", "price_cents": 35, "count": 2}]


def test_old_files_are_read(tmp_path):
    file = tmp_path / "stock.json"
    file.write_text('{"version": 1, "takings": 0.7999999999999999, "items": [{"name": "pencil", "price": 0.29, "count": 2}]}')
    stock = load(file)
    assert stock == Stock({"pencil": Item("pencil", 29, 2)}, 80)
    assert type(stock.takings) is int
    save(stock, file)
    assert json.loads(file.read_text())["version"] == 2
    assert load(file) == stock


def test_unknown_version_is_still_refused(tmp_path):
    file = tmp_path / "stock.json"
    file.write_text('{"version": 3, "items": []}')
    with pytest.raises(ShelfError, match="version 3"):
        load(file)


def test_command(tmp_path, capsys):
    file = str(tmp_path / "stock.json")
    for _ in range(3):
        assert run(["add", file, "sweet", "0.10", "1"]) == 0
    assert run(["sell", file, "sweet", "3"]) == 0
    assert capsys.readouterr().out == "0.30\n"
    assert run(["report", file]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["takings", "0.30"]
