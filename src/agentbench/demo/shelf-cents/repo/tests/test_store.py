import pytest

from shelf import ShelfError, Stock, load, save
from shelf.prices import parse_price


def test_what_is_saved_is_loaded(tmp_path):
    stock = Stock()
    stock.add("pencil", parse_price("0.35"), 3)
    stock.sell("pencil", 1)
    save(stock, tmp_path / "stock.json")
    assert load(tmp_path / "stock.json") == stock


def test_no_file_is_an_empty_stock(tmp_path):
    assert load(tmp_path / "nothing.json") == Stock()


@pytest.mark.parametrize("text", ["not json", '{"version": 99}'])
def test_what_is_not_a_stock_file(tmp_path, text):
    file = tmp_path / "stock.json"
    file.write_text(text)
    with pytest.raises(ShelfError, match="stock.json"):
        load(file)
