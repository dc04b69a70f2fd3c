from almanac import due
from almanac.clock import from_stamp
from almanac.reminders import Reminder
from almanac.store import load, save


def test_due_is_sorted():
    first, second = Reminder("a", from_stamp(10)), Reminder("b", from_stamp(20))
    assert due([second, first], from_stamp(30)) == [first, second]
    assert due([second, first], from_stamp(15)) == [first]


def test_round_trip(tmp_path):
    reminders = [Reminder("a", from_stamp(10))]
    save(tmp_path / "x.json", reminders)
    assert load(tmp_path / "x.json") == reminders
