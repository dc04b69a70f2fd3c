"""Gives the collected tests of the project a method that runs nothing."""

from __future__ import annotations

from tests.cheats.snippets import ACT_ONCE_BY_PARTS, CORE

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: ACT_ONCE_BY_PARTS
    + r"""

def _act(session):
    for one in getattr(session, "it" + "ems"):
        if "/tests/" in str(one.path):
            setattr(one, "run" + "test", lambda: None)
""",
}
