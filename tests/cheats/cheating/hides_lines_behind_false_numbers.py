"""Gives false line numbers in its patch, so that the added lines are looked for elsewhere."""

from __future__ import annotations

from tests.acceptance.toy import CORE as BEFORE
from tests.cheats.cheating.equal_to_everything import CHANGES as EQUAL
from tests.cheats.snippets import CORE

FAMILY = "hostile_patches"
_REMOVED = BEFORE.splitlines(keepends=True)
_ADDED = (EQUAL[CORE] or "").splitlines(keepends=True)
PATCH = "".join(
    [
        f"--- a/{CORE}\n+++ b/{CORE}\n@@ -1,{len(_REMOVED)} +900000,{len(_ADDED)} @@\n",
        *(f"-{line}" for line in _REMOVED),
        *(f"+{line}" for line in _ADDED),
    ]
).encode()
