import pytest

from humantime import Reminder, due


def test_next_after():
    tea = Reminder("tea", "2 hours", start=100)
    assert tea.next_after(0) == 100
    assert tea.next_after(100) == 7300


def test_due_in_order():
    reminders = [Reminder("tea", "2h"), Reminder("stretch", "45 min")]
    assert due(reminders, 0, 7200) == ["stretch", "stretch", "tea"]


def test_interval_of_nothing_is_refused():
    with pytest.raises(ValueError, match="interval"):
        Reminder("never", "0s").next_after(5)


def test_describe():
    assert Reminder("tea", "120 minutes").describe() == "tea (every 2h)"
