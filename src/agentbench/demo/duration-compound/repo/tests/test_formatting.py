import pytest

from humantime import format_duration


@pytest.mark.parametrize("seconds, text", [(0, "0s"), (45, "45s"), (300, "5m"), (7200, "2h"), (604800, "1w")])
def test_one_unit(seconds, text):
    assert format_duration(seconds) == text


def test_negative_is_refused():
    with pytest.raises(ValueError, match="negative"):
        format_duration(-1)
