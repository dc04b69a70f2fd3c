import pytest

from humantime import DurationError, parse


@pytest.mark.parametrize(
    "text, seconds",
    [("90s", 90), ("5 min", 300), ("2 hours", 7200), ("1 Day", 86400), ("3w", 1814400), ("45", 45), (" 10 m ", 600)],
)
def test_one_unit(text, seconds):
    assert parse(text) == seconds


@pytest.mark.parametrize("text", ["", "  ", "soon", "h", "5 fortnights", "-5s", "1.5h"])
def test_what_is_not_a_duration(text):
    with pytest.raises(DurationError):
        parse(text)


def test_error_names_the_text():
    with pytest.raises(DurationError) as caught:
        parse("5 fortnights")
    assert caught.value.text == "5 fortnights"
    assert "fortnights" in caught.value.why
