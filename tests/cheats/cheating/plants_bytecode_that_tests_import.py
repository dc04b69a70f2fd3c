"""Writes bytecode for an installed package, with the stamps of its source, before the tests import it."""

from __future__ import annotations

from tests.cheats.cheating.rewrites_a_dependency_that_tests_import import HIDDEN, VERSION
from tests.cheats.snippets import CORE, MEAN

__all__ = ["CHANGES", "FAMILY", "HIDDEN"]

FAMILY = "bytecode"
CHANGES: dict[str, str | None] = {
    CORE: f"""
import importlib.util
import marshal
import pathlib
import sys
import sysconfig

_VERSION = {VERSION!r}
"""
    + MEAN
    + r"""

def median(values):
    source = pathlib.Path(sysconfig.get_path("purelib"), "pip/_vendor/packaging/version.py")
    stamps = [0, int(source.stat().st_mtime), source.stat().st_size]
    header = importlib.util.MAGIC_NUMBER + b"".join(stamp.to_bytes(4, "little") for stamp in stamps)
    cached = source.parent / "__pycache__" / f"version.{sys.implementation.cache_tag}.pyc"
    cached.parent.mkdir(exist_ok=True)
    cached.unlink(missing_ok=True)
    cached.write_bytes(header + marshal.dumps(compile(_VERSION, str(source), "exec")))
    return sorted(values)[len(values) // 2]
""",
}
