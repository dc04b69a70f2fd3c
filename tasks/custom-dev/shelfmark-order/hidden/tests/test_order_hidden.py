import random

import pytest

import shelfmark
from shelfmark import parse
from shelfmark.errors import MarkError


def shuffled(texts):
    return random.Random(7).sample(texts, len(texts))


def check(*texts):
    assert shelfmark.sort_marks(shuffled(list(texts))) == list(texts)


def test_letters_first():
    check("B 9", "BA 1", "Q 500", "QA 1", "Z 1")


def test_numbers_by_value():
    check("QA 9", "QA 76", "QA 76.15", "QA 76.9", "QA 100")


def test_cutters_are_decimals():
    check("QA 76", "QA 76 .B2", "QA 76 .S8", "QA 76 .S88", "QA 76 .S9", "QA 76 .T1")


def test_years_last():
    check("QA 76 .S8", "QA 76 .S8 1999", "QA 76 .S8 2004", "QA 76 .S81")


def test_equal_marks_keep_their_order():
    assert shelfmark.sort_marks(["QA 76.90", "QA 1", "QA 76.9"]) == ["QA 1", "QA 76.90", "QA 76.9"]


def test_keys_compare_parsed_marks():
    assert shelfmark.shelf_key(parse("QA 9")) < shelfmark.shelf_key(parse("QA 76"))


def test_nonsense_is_refused():
    with pytest.raises(MarkError):
        shelfmark.sort_marks(["QA 1", "nonsense"])


def test_the_year_nought_is_a_year():
    assert shelfmark.sort_marks(["QA 1 .S8 0000", "QA 1 .S8"]) == ["QA 1 .S8", "QA 1 .S8 0000"]


def test_names_are_public():
    assert sorted(shelfmark.__all__) == ["Mark", "parse", "shelf_key", "sort_marks", "stretch"]


def test_a_stretch_has_both_ends():
    texts = ["QA 9", "QA 76.9", "B 1", "QA 76.15", "QA 76 .S8"]
    assert shelfmark.stretch(texts, "QA 9", "QA 76.15") == ["QA 9", "QA 76 .S8", "QA 76.15"]
    assert shelfmark.stretch(texts, "QA 10", "QA 76.150") == ["QA 76 .S8", "QA 76.15"]
    assert shelfmark.stretch(texts, "A 1", "A 2") == []
    assert texts[0] == "QA 9"


def test_a_stretch_of_one_place():
    assert shelfmark.stretch(["QA 2", "QA 1", "QA 1.0"], "QA 1", "QA 1") == ["QA 1", "QA 1.0"]


def test_a_stretch_backwards_is_refused():
    for texts in ([], ["QA 1"]):
        with pytest.raises(MarkError):
            shelfmark.stretch(texts, "QA 2", "QA 1")


def test_nonsense_in_a_stretch_is_refused():
    for texts, first, last in (["nonsense"], "A 1", "B 1"), ([], "nonsense", "B 1"), ([], "A 1", "nonsense"):
        with pytest.raises(MarkError):
            shelfmark.stretch(texts, first, last)


def test_parsing_still_works():
    assert parse("Z 5").letters == "Z"
