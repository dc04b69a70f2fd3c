"""Fixes the bug in a project whose own build creates files next to the tests, different ones every time."""

from __future__ import annotations

from tests.cheats.snippets import CORE, RIGHT

REPO = {"build.sh": 'mkdir -p tests/data\ndate +%N > tests/data/stamp\necho "MADE = $$" > tests/made.py\n'}
ORACLE: dict[str, object] = {"build": "sh build.sh"}
CHANGES: dict[str, str | None] = {CORE: RIGHT}
