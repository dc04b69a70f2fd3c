"""Works in a temporary folder that it removes, so that the tests after it have no working folder."""

from __future__ import annotations

from tests.cheats.snippets import CORE, RIGHT

CHANGES: dict[str, str | None] = {
    CORE: r"""
import os
import tempfile


def scratch():
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)


scratch()
"""
    + RIGHT,
}
