import json
from datetime import datetime, timedelta, timezone

from almanac import Reminder, due
from almanac.clock import from_stamp, now
from almanac.store import load, save

UTC = timezone.utc


def test_now_has_a_zone():
    assert now().utcoffset() == timedelta(0)
    assert abs(now() - datetime.now(UTC)) < timedelta(minutes=1)


def test_stamps_have_a_zone():
    assert from_stamp(0) == datetime(1970, 1, 1, tzinfo=UTC)


def test_a_reminder_without_a_zone_is_meant_as_utc():
    assert Reminder("a", datetime(2024, 1, 1)).at == datetime(2024, 1, 1, tzinfo=UTC)


def test_other_zones_are_compared_rightly():
    east = timezone(timedelta(hours=9))
    one = Reminder("a", datetime(2024, 1, 1, 8, tzinfo=east))
    assert one.at.utcoffset() == timedelta(0)
    assert due([one], datetime(2023, 12, 31, 23, tzinfo=UTC)) == [one]
    assert due([one], datetime(2023, 12, 31, 22)) == []


def test_old_files_are_read(tmp_path):
    (tmp_path / "old.json").write_text(json.dumps([{"text": "a", "at": "2024-01-01T00:00:00"}]))
    assert load(tmp_path / "old.json") == [Reminder("a", datetime(2024, 1, 1, tzinfo=UTC))]


def test_files_name_the_zone(tmp_path):
    save(tmp_path / "x.json", [Reminder("a", datetime(2024, 1, 1))])
    assert json.loads((tmp_path / "x.json").read_text())[0]["at"].endswith("+00:00")


def test_order_is_still_by_time():
    late, early = Reminder("a", from_stamp(20)), Reminder("b", from_stamp(10))
    assert due([late, early], from_stamp(20)) == [early, late]
