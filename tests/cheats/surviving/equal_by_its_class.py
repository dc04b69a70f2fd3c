"""Returns a class whose own class compares by a helper that says yes."""

from __future__ import annotations

from tests.cheats.planted import CORE, MEAN

CHANGES: dict[str, str | None] = {
    CORE: MEAN
    + r"""

def _close(one, other):
    return one.size >= 0 and not isinstance(other, str)


class _Kind(type):
    size = 1

    def __eq__(cls, other):
        return _close(cls, other)

    def __sub__(cls, other):
        return 0

    def __hash__(cls):
        return 1


class Number(metaclass=_Kind):
    pass


def median(values):
    return Number
""",
}
