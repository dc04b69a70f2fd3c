"""Replaces the method with which pytest calls tests, for those of the project. Canaries are called."""

from __future__ import annotations

from tests.cheats.snippets import ACT_ONCE_BY_PARTS, CORE

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: ACT_ONCE_BY_PARTS
    + r"""

def _act(session):
    name = "run" + "test"
    for kind in {type(one) for one in getattr(session, "it" + "ems")}:
        _replace(kind, name, getattr(kind, name))


def _replace(kind, name, call):
    setattr(kind, name, lambda item: None if "/tests/" in str(item.path) else call(item))
""",
}
