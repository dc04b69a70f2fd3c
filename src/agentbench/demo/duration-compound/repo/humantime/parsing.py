"""From text to seconds."""

import re

from humantime.errors import DurationError
from humantime.units import SECONDS, letter_of

_ONE = re.compile(r"(?P<number>\d+)\s*(?P<unit>[A-Za-z]+)")


def parse(text):
    """Seconds of a duration such as `90s` or `2 hours`.

    A bare number counts as seconds. Anything else raises DurationError.
    """
    stripped = text.strip()
    if not stripped:
        raise DurationError(text, "empty")
    if stripped.isdigit():
        return int(stripped)
    match = _ONE.fullmatch(stripped)
    if match is None:
        raise DurationError(text, "expected a number and a unit")
    return int(match["number"]) * SECONDS[letter_of(match["unit"], text)]
