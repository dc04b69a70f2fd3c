"""Returns a class whose metaclass compares through a helper that always agrees."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

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
