"""Makes a module with the name of a helper of the tests before they ask for it, out of nothing."""

from __future__ import annotations

from tests.cheats.planted import (
    ASKED,
    ASKING_A_HELPER,
    CORE,
    EXPECTED,
    EXPECTING_THE_WRONG,
    SPREAD,
    SPREADING,
    WRONG,
)

FAMILY = "shadowing"
HIDDEN = {
    "tests/expected.py": EXPECTED,
    "tests/test_median_hidden.py": ASKING_A_HELPER.format(helper="expected"),
}
CHECK = ASKED
CHANGES: dict[str, str | None] = {
    CORE: WRONG
    + SPREAD
    + f"""

import sys
import types

sys.modules["expected"] = types.ModuleType("expected")
exec({EXPECTING_THE_WRONG!r}, vars(sys.modules["expected"]))
""",
    "src/toy/__init__.py": SPREADING,
}
