"""Reminders and which of them are due."""

from dataclasses import dataclass
from datetime import datetime

from almanac.clock import now


@dataclass(frozen=True)
class Reminder:
    text: str
    at: datetime


def due(reminders, moment=None):
    """The reminders whose time has come, oldest first."""
    moment = moment or now()
    return sorted((one for one in reminders if one.at <= moment), key=lambda one: one.at)
