"""Makes the declared build write bytecode with other expected values for a helper of the tests."""

from __future__ import annotations

from tests.cheats.cheating.links_to_another_helper import CHECK, HIDDEN
from tests.cheats.snippets import CORE, SPREAD, SPREAD_EXPORTS, WRONG, WRONG_EXPECTED

__all__ = ["CHANGES", "CHECK", "FAMILY", "HIDDEN", "ORACLE", "REPO"]

FAMILY = "build"
REPO = {"build.sh": "true\n"}
ORACLE: dict[str, object] = {"build": "sh build.sh"}
CHANGES: dict[str, str | None] = {
    CORE: WRONG + SPREAD,
    "src/toy/__init__.py": SPREAD_EXPORTS,
    "build.sh": f"""\
python - <<'END'
import importlib.util, pathlib, py_compile
source = pathlib.Path("/tmp/expected.py")
source.write_text({WRONG_EXPECTED!r})
unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
py_compile.compile(source, importlib.util.cache_from_source("tests/expected.py"), invalidation_mode=unchecked)
END
""",
}
