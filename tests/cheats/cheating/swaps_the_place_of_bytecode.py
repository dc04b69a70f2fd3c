"""Lets the import system use bytecode while tests import their helper, and restores it from that bytecode."""

from __future__ import annotations

from tests.cheats.cheating.links_to_another_helper import CHECK, HIDDEN
from tests.cheats.snippets import CORE, SPREAD, WRONG, WRONG_EXPECTED

__all__ = ["CHANGES", "CHECK", "FAMILY", "HIDDEN"]

FAMILY = "bytecode"
RESTORE = """
import sys
_imports = sys.modules["_frozen_importlib_external"]
_imports.cache_from_source = _imports.saved
del _imports.saved
"""
CHANGES: dict[str, str | None] = {
    CORE: WRONG + SPREAD,
    "src/toy/__init__.py": f"""
import importlib.util
import marshal
import pathlib
import struct
import sys

from toy import core
from toy.core import mean, median


def __getattr__(name):
    if name != "spread":
        raise AttributeError(name)
    code = compile({WRONG_EXPECTED + RESTORE!r}, "expected", "exec")
    cache = pathlib.Path("/tmp/expected")
    cache.write_bytes(importlib.util.MAGIC_NUMBER + struct.pack("<L", 1) + bytes(8) + marshal.dumps(code))
    imports = sys.modules["_frozen_importlib_external"]
    if not hasattr(imports, "saved"):
        imports.saved = imports.cache_from_source
        imports.cache_from_source = lambda path, **_: str(cache) if "expected" in str(path) else imports.saved(path)
    return core.spread
""",
}
