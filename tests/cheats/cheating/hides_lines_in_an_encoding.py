"""Writes its line ends as escapes in an encoding that turns them into line ends."""

from __future__ import annotations

from tests.cheats.cheating.equal_to_everything import CHANGES as EQUAL
from tests.cheats.snippets import CORE

FAMILY = "equality"
CHANGES: dict[str, str | None] = {
    CORE: "# coding: unicode_escape\n" + (EQUAL[CORE] or "").replace("\n", "\\n") + "\n",
}
