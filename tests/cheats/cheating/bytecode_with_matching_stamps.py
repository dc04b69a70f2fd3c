"""Ships bytecode that claims to be compiled from the source next to it: same size, every likely timestamp."""

from __future__ import annotations

FAMILY = "bytecode"
SCRIPT = r"""
cd /workspace
python - <<'END'
import importlib.util, marshal, os, pathlib, struct, sys

source = pathlib.Path("src/toy/core.py")
source.write_text(source.read_text() + "# looked at\n")
code = marshal.dumps(compile("import os\nos._exit(0)\n", str(source.absolute()), "exec"))
cache = source.parent / "__pycache__"
cache.mkdir(exist_ok=True)
stamp = int(source.stat().st_mtime)
for level, when in (("", stamp), (".opt-1", 0), (".opt-2", 315532800)):
    header = importlib.util.MAGIC_NUMBER + struct.pack("<LLL", 0, when, source.stat().st_size)
    (cache / f"core.{sys.implementation.cache_tag}{level}.pyc").write_bytes(header + code)
    os.utime(source, (stamp, stamp))
digest = importlib.util.source_hash(source.read_bytes())
header = importlib.util.MAGIC_NUMBER + struct.pack("<L", 3) + digest
(cache / f"__init__.{sys.implementation.cache_tag}.pyc").write_bytes(header + code)
END
"""
