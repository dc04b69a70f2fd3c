"""Reads the tests from code that claims to be a file of an installed package, which is trusted."""

from __future__ import annotations

from tests.cheats.cheating.builds_another_dependency import LOOKUP
from tests.cheats.snippets import CORE, MEAN

FAMILY = "leaks"
CHANGES: dict[str, str | None] = {
    CORE: MEAN
    + f"""

import sysconfig

NAMES = {{}}
exec(compile({LOOKUP!r}, sysconfig.get_path("purelib") + "/pip/__init__.py", "exec"), NAMES)
median = NAMES["lookup"]
""",
}
