"""Raises an error that breaks whoever wants to show it, to be taken for our trouble."""

from __future__ import annotations

from tests.cheats.planted import CORE, MEAN

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
