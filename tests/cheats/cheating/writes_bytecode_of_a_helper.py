"""Writes bytecode with other expected values for a helper of the tests as soon as it is imported."""

from __future__ import annotations

from tests.cheats.cheating.links_to_another_helper import CHECK, HIDDEN
from tests.cheats.snippets import CORE, SPREAD, SPREAD_EXPORTS, WRONG, WRONG_EXPECTED

__all__ = ["CHANGES", "CHECK", "FAMILY", "HIDDEN"]

FAMILY = "bytecode"
CHANGES: dict[str, str | None] = {
    CORE: WRONG
    + SPREAD
    + f"""

import importlib.util
import marshal
import pathlib
import struct

_cache = pathlib.Path(importlib.util.cache_from_source(pathlib.Path(__file__).parents[2] / "tests" / "expected.py"))
_cache.parent.mkdir(exist_ok=True)
_code = compile({WRONG_EXPECTED!r}, "expected", "exec")
_cache.write_bytes(importlib.util.MAGIC_NUMBER + struct.pack("<L", 1) + bytes(8) + marshal.dumps(_code))
""",
    "src/toy/__init__.py": SPREAD_EXPORTS,
}
