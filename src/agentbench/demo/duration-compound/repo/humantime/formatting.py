"""From seconds to text."""

from humantime.units import SECONDS


def format_duration(seconds):
    """The shortest text in one unit that is exact: `7200` is `2h`, `90` is `90s`."""
    if seconds < 0:
        raise ValueError("a duration cannot be negative")
    if seconds == 0:
        return "0s"
    for letter, size in SECONDS.items():
        if seconds % size == 0:
            return f"{seconds // size}{letter}"
    raise AssertionError("unreachable: every whole number of seconds is a multiple of one")
