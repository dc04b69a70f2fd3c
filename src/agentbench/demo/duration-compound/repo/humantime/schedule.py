"""Reminders that repeat after a duration."""

from dataclasses import dataclass

from humantime.formatting import format_duration
from humantime.parsing import parse


@dataclass
class Reminder:
    """Something to be reminded of every so often, counted from `start` (seconds)."""

    text: str
    every: str
    start: int = 0

    def interval(self):
        return parse(self.every)

    def next_after(self, now):
        """The first moment after `now` at which it is due."""
        step = self.interval()
        if step == 0:
            raise ValueError("a reminder needs an interval")
        if now < self.start:
            return self.start
        return self.start + ((now - self.start) // step + 1) * step

    def describe(self):
        return f"{self.text} (every {format_duration(self.interval())})"


def due(reminders, since, until):
    """Texts of the reminders that come due after `since` and not after `until`, soonest first."""
    found = []
    for reminder in reminders:
        moment = reminder.next_after(since)
        while moment <= until:
            found.append((moment, reminder.text))
            moment = reminder.next_after(moment)
    return [text for _, text in sorted(found)]
