import pytest

from humantime import DurationError, Reminder, format_duration, parse


@pytest.mark.parametrize(
    "text, seconds",
    [
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("2 days 4 hours", 187200),
        ("1w2d3h4m5s", 788645),
        ("1 hour, 5 minutes and 10 seconds", 3910),
        ("1h and 1s", 3601),
        ("  10m   5s ", 605),
        ("1H30Min", 5400),
        ("0h 5m", 300),
    ],
)
def test_several_units(text, seconds):
    assert parse(text) == seconds


@pytest.mark.parametrize(
    "text, why",
    [
        ("30m 1h", "largest to smallest"),
        ("1s1w", "largest to smallest"),
        ("1h 2h", "twice"),
        ("5m 10 minutes", "twice"),
    ],
)
def test_order_and_repetition_are_refused(text, why):
    with pytest.raises(DurationError) as caught:
        parse(text)
    assert why in caught.value.why
    assert caught.value.text == text


@pytest.mark.parametrize("text", ["1h30", "1h,", "and 1h", "1h and", "1h and and 2m", "1h; 2m", "1h 2", "1h2.5m", ", 5m", "1h,,5m"])
def test_halves_are_refused(text):
    with pytest.raises(DurationError):
        parse(text)


@pytest.mark.parametrize("text", ["90s", "2 hours", "45", " 10 m "])
def test_one_unit_still_works(text):
    assert parse(text) == {"90s": 90, "2 hours": 7200, "45": 45, " 10 m ": 600}[text]


@pytest.mark.parametrize(
    "seconds, text", [(5400, "1h30m"), (788645, "1w2d3h4m5s"), (90, "1m30s"), (3601, "1h1s"), (7200, "2h"), (0, "0s")]
)
def test_formatting_in_several_units(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize("seconds", [1, 59, 61, 3599, 86399, 86401, 694861, 1234567])
def test_what_is_formatted_parses_back(seconds):
    assert parse(format_duration(seconds)) == seconds


def test_reminders_profit():
    assert Reminder("tea", "1 hour and 30 minutes").describe() == "tea (every 1h30m)"
    assert Reminder("tea", "1h30m").next_after(0) == 5400
