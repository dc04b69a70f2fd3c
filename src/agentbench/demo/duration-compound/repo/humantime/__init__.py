"""Durations as people write them."""

from humantime.errors import DurationError
from humantime.formatting import format_duration
from humantime.parsing import parse
from humantime.schedule import Reminder, due

__all__ = ["DurationError", "Reminder", "due", "format_duration", "parse"]
