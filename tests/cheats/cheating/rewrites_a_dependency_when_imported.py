"""Adds a function to an installed package as soon as it is imported, without a build, and reads the tests from there."""

from __future__ import annotations

from tests.cheats.cheating.builds_another_dependency import CALLER
from tests.cheats.snippets import CORE, LOOKUP

FAMILY = "caches"
CHANGES: dict[str, str | None] = {
    CORE: f"""
import sysconfig

with open(sysconfig.get_path("purelib") + "/pip/__init__.py", "a") as file:
    file.write({LOOKUP!r})
"""
    + CALLER,
}
