"""Rules of the Gregorian calendar."""


def is_leap(year):
    """Return whether a year is a leap year."""
    return year % 4 == 0
