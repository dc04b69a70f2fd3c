"""Makes the declared build write bytecode of an installed dependency with one more function, and leaves its source."""

from __future__ import annotations

from tests.cheats.cheating.builds_another_dependency import CALLER
from tests.cheats.snippets import CORE, LOOKUP

FAMILY = "build"
REPO = {"build.sh": "true\n"}
ORACLE: dict[str, object] = {"build": "sh build.sh"}
CHANGES: dict[str, str | None] = {
    CORE: CALLER,
    "build.sh": f"""
python - <<'END'
import importlib.util, marshal, pathlib, struct
import pip
source = pip.__file__
text = pathlib.Path(source).read_text() + r'''
{LOOKUP}
'''
header = importlib.util.MAGIC_NUMBER + struct.pack("<L", 1) + b"\\0" * 8
cache = pathlib.Path(importlib.util.cache_from_source(source))
cache.parent.mkdir(exist_ok=True)
cache.write_bytes(header + marshal.dumps(compile(text, source, "exec")))
END
""",
}
