import pytest

from invoices import InvoiceError, Line, read_lines


def test_reads_lines():
    assert read_lines([{"text": "a", "category": "goods", "cents": 5}]) == [Line("a", "goods", 5)]


@pytest.mark.parametrize(
    "raw, message",
    [
        ([], "at least one line"),
        ([{"text": "a"}], "line 1: needs"),
        ([{"text": "a", "category": "toys", "cents": 5}], "unknown category 'toys'"),
        ([{"text": "a", "category": "goods", "cents": 5, "quantity": 0}], "whole numbers"),
    ],
)
def test_refuses(raw, message):
    with pytest.raises(InvoiceError, match=message):
        read_lines(raw)
