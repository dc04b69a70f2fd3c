"""What time it is."""

from datetime import datetime


def now():
    return datetime.utcnow()


def from_stamp(seconds):
    return datetime.utcfromtimestamp(seconds)
