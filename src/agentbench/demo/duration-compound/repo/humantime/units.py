"""Units of time and their names, from the largest to the smallest."""

from humantime.errors import DurationError

SECONDS = {
    "w": 7 * 24 * 3600,
    "d": 24 * 3600,
    "h": 3600,
    "m": 60,
    "s": 1,
}

_NAMES = {
    "w": ("w", "week", "weeks"),
    "d": ("d", "day", "days"),
    "h": ("h", "hour", "hours"),
    "m": ("m", "min", "minute", "minutes"),
    "s": ("s", "sec", "second", "seconds"),
}

_LETTER_OF = {name: letter for letter, names in _NAMES.items() for name in names}


def letter_of(name, text):
    """The letter of a unit given by any of its names."""
    try:
        return _LETTER_OF[name.lower()]
    except KeyError:
        raise DurationError(text, f"unknown unit {name!r}") from None
