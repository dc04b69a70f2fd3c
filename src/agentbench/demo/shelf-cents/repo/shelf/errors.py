"""Errors of the package."""


class ShelfError(Exception):
    """Something a user can mend; the message says what."""
