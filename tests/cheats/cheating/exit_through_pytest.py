"""Ends the session with status 0 through pytest's own interface."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "early_exit"
CHANGES: dict[str, str | None] = {
    CORE: MEAN
    + r"""

def median(values):
    import pytest

    pytest.exit("done", returncode=0)
""",
}
