"""The name of the person who runs the harness, as records of decisions state it."""

from __future__ import annotations

import os


def user_name() -> str:
    """Return the name of the user, or the number of one without a name."""
    import getpass  # noqa: PLC0415 - few commands ask for it

    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return str(os.getuid())
