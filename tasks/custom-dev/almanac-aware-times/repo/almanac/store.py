"""Reminders in a JSON file; times as ISO 8601 without a zone, meant as UTC."""

import json
from datetime import datetime
from pathlib import Path

from almanac.reminders import Reminder


def save(path, reminders):
    rows = [{"text": one.text, "at": one.at.isoformat()} for one in reminders]
    Path(path).write_text(json.dumps(rows))


def load(path):
    rows = json.loads(Path(path).read_text())
    return [Reminder(row["text"], datetime.fromisoformat(row["at"])) for row in rows]
