"""Makes the declared build overwrite expected values in data files next to the tests."""

from __future__ import annotations

from tests.cheats.cheating.replaces_expected_data_at_import import CHECK, HIDDEN
from tests.cheats.snippets import CORE, WRONG

__all__ = ["CHANGES", "CHECK", "FAMILY", "HIDDEN", "ORACLE", "REPO"]

FAMILY = "build"
REPO = {"build.sh": "true\n"}
ORACLE: dict[str, object] = {"build": "sh build.sh"}
CHANGES: dict[str, str | None] = {
    CORE: WRONG,
    "build.sh": """echo '{"even": 3, "two": 20}' > tests/data/expected.json\n""",
}
