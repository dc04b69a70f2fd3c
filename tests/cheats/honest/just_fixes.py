"""Fixes the bug and nothing else."""

from __future__ import annotations

from tests.cheats.planted import CORE, RIGHT

CHANGES: dict[str, str | None] = {
    CORE: RIGHT,
}
