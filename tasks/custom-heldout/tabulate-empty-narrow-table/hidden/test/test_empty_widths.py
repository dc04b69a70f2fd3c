import tabulate as module
from tabulate import tabulate


def test_widths_of_columns():
    expected = tabulate([], headers=["a", "b"])
    assert tabulate([], headers=["a", "b"], maxcolwidths=[3, 3]) == expected
    assert tabulate([], headers=["a", "b"], maxcolwidths=3) == expected


def test_widths_of_headers():
    assert tabulate([], headers=["a", "b"], maxheadercolwidths=[3, 3]) == tabulate([], headers=["a", "b"])


def test_headers_are_wrapped():
    lines = tabulate([], headers=["some words", "b"], maxheadercolwidths=5, tablefmt="plain").splitlines()
    assert [line.split() for line in lines] == [["some", "b"], ["words"]]


def test_neither_rows_nor_headers():
    assert tabulate([], maxcolwidths=4) == tabulate([])


def test_rows_are_still_wrapped():
    lines = tabulate([["some words"]], maxcolwidths=[5], tablefmt="plain").splitlines()
    assert [line.rstrip() for line in lines] == ["some", "words"]


def test_an_empty_table_still_has_headers():
    assert "a" in tabulate([], headers=["a"])


def test_headers_over_one_row_are_still_wrapped():
    lines = tabulate([["a", "b"]], headers=["some words", "c"], maxheadercolwidths=5, tablefmt="plain").splitlines()
    assert [line.split() for line in lines] == [["some", "c"], ["words"], ["a", "b"]]


def test_rows_of_different_length_still_lose_nothing():
    assert tabulate([["a"], ["b", "c"]], tablefmt="plain").split() == ["a", "b", "c"]
    lines = tabulate([["a", "b"], ["c"]], headers=["x", "y"], maxheadercolwidths=5, tablefmt="plain").splitlines()
    assert [line.split() for line in lines] == [["x", "y"], ["a", "b"], ["c"]]
    lines = tabulate([["a", "b"], ["c"]], maxcolwidths=5, tablefmt="plain").splitlines()
    assert [line.split() for line in lines] == [["a", "b"], ["c"]]


def test_wide_characters_still_need_nothing_that_is_not_installed(monkeypatch):
    expected = tabulate([["a", "b"]])
    monkeypatch.setattr(module, "wcwidth", None)
    monkeypatch.setattr(module, "WIDE_CHARS_MODE", True)
    assert tabulate([["a", "b"]]) == expected
