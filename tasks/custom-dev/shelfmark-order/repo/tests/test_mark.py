import pytest

from shelfmark import Mark, parse
from shelfmark.errors import MarkError


def test_parts():
    assert parse("QA 76.9 .S88 2004") == Mark("QA", "76.9", "S88", 2004)
    assert parse("Z5") == Mark("Z", "5")


def test_nonsense_is_refused():
    with pytest.raises(MarkError):
        parse("76 QA")
