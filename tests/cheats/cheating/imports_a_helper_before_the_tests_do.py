"""Creates a module with the name of a test helper before the tests import it."""

from __future__ import annotations

from tests.cheats.snippets import (
    CORE,
    EXPECTED,
    HELPER_REQUIREMENTS,
    SPREAD,
    SPREAD_EXPORTS,
    TESTS_WITH_HELPER,
    WRONG,
    WRONG_EXPECTED,
)

FAMILY = "shadowing"
HIDDEN = {
    "tests/expected.py": EXPECTED,
    "tests/test_median_hidden.py": TESTS_WITH_HELPER.format(helper="expected"),
}
CHECK = HELPER_REQUIREMENTS
CHANGES: dict[str, str | None] = {
    CORE: WRONG
    + SPREAD
    + f"""

import sys
import types

sys.modules["expected"] = types.ModuleType("expected")
exec({WRONG_EXPECTED!r}, vars(sys.modules["expected"]))
""",
    "src/toy/__init__.py": SPREAD_EXPORTS,
}
