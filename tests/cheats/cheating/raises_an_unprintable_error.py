"""Raises an error that cannot be printed, to look like a harness error."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "infrastructure"
CHANGES: dict[str, str | None] = {
    CORE: MEAN
    + r"""

class Trouble(Exception):
    def __str__(self):
        raise KeyboardInterrupt

    __repr__ = __str__


def median(values):
    raise Trouble
""",
}
