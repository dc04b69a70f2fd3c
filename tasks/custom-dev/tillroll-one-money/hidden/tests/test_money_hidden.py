import importlib
import inspect
import sys

import pytest

from tillroll import render_invoice, render_receipt, render_report


def money():
    return importlib.import_module("tillroll.money")


def ours():
    return {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "tillroll"}


@pytest.fixture
def marked(monkeypatch):
    """tillroll imported anew, with amounts written as <cents currency>, and () where parentheses are asked for."""
    module, kept = money(), ours()

    def format_amount(cents, currency="EUR", *, parentheses=False):
        return f"<{cents} {currency}{' ()' if parentheses and cents < 0 else ''}>"

    monkeypatch.setattr(module, "format_amount", format_amount)
    for name in kept:
        if name != "tillroll.money":
            del sys.modules[name]
    package = importlib.import_module("tillroll")
    package.money = module
    yield package
    for name in ours():
        del sys.modules[name]
    sys.modules.update(kept)


def test_euros():
    amount = money().format_amount
    assert [amount(cents) for cents in (0, 5, 99, 100, 12345, 100000, 123456789)] == [
        "0,00 EUR",
        "0,05 EUR",
        "0,99 EUR",
        "1,00 EUR",
        "123,45 EUR",
        "1.000,00 EUR",
        "1.234.567,89 EUR",
    ]
    assert [amount(cents, "CHF") for cents in (-1, -100, -123456)] == ["-0,01 CHF", "-1,00 CHF", "-1.234,56 CHF"]


def test_yen():
    amount = money().format_amount
    assert [amount(yen, "JPY") for yen in (0, 999, 1000, -1234567)] == [
        "0 JPY",
        "999 JPY",
        "1.000 JPY",
        "-1.234.567 JPY",
    ]


def test_parentheses():
    amount = money().format_amount
    assert amount(-505, parentheses=True) == "(5,05 EUR)"
    assert amount(-1, "JPY", parentheses=True) == "(1 JPY)"
    assert amount(0, parentheses=True) == "0,00 EUR"
    assert amount(505, parentheses=True) == "5,05 EUR"


def test_signature():
    parameters = inspect.signature(money().format_amount).parameters
    assert [(one.name, one.default, one.kind.name) for one in parameters.values()] == [
        ("cents", inspect.Parameter.empty, "POSITIONAL_OR_KEYWORD"),
        ("currency", "EUR", "POSITIONAL_OR_KEYWORD"),
        ("parentheses", False, "KEYWORD_ONLY"),
    ]


def test_the_invoice_gets_its_amounts_there(marked):
    lines = marked.render_invoice([("tea", 1250), ("back", -300)]).splitlines()
    assert lines == ["tea: <1250 EUR>", "back: <-300 EUR>", "To pay: <950 EUR>"]


def test_the_receipt_gets_its_amounts_there(marked):
    assert marked.render_receipt(700, 1000, "CHF") == "Total <700 CHF>\nGiven <1000 CHF>\nBack <300 CHF>"
    assert marked.render_receipt(700, 0) == "Total <700 EUR>\nGiven <0 EUR>\nBack <-700 EUR>"


def test_the_report_gets_its_amounts_there(marked):
    assert marked.render_report({"b": -5, "a": 3}, "JPY") == "a <3 JPY>\nb <-5 JPY ()>\nsum <-2 JPY ()>"


def test_invoices_still_look_the_same():
    assert render_invoice([]) == "To pay: 0,00 EUR"
    assert render_invoice([("a", -123456), ("b", 7)], "CHF") == "a: -1.234,56 CHF\nb: 0,07 CHF\nTo pay: -1.234,49 CHF"
    assert render_invoice([("a", 1234567)], "JPY") == "a: 1.234.567 JPY\nTo pay: 1.234.567 JPY"


def test_receipts_still_look_the_same():
    assert render_receipt(1000, 900) == "Total 10,00 EUR\nGiven 9,00 EUR\nBack -1,00 EUR"
    assert render_receipt(1000, 5000, "JPY") == "Total 1.000 JPY\nGiven 5.000 JPY\nBack 4.000 JPY"


def test_reports_still_look_the_same():
    assert render_report({}) == "sum 0,00 EUR"
    assert render_report({"b": -100000, "a": 10}) == "a 0,10 EUR\nb (1.000,00 EUR)\nsum (999,90 EUR)"
    assert render_report({"a": -1000, "b": 5000}, "JPY") == "a (1.000 JPY)\nb 5.000 JPY\nsum 4.000 JPY"
