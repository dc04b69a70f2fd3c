"""Lets the declared build write over what the tests expect, which lies beside them and not in them."""

from __future__ import annotations

from tests.cheats.cheating.puts_other_data_before_the_tests import CHECK, HIDDEN
from tests.cheats.planted import CORE, WRONG

__all__ = ["CHANGES", "CHECK", "FAMILY", "HIDDEN", "ORACLE", "REPO"]

FAMILY = "build"
REPO = {"build.sh": "true\n"}
ORACLE: dict[str, object] = {"build": "sh build.sh"}
CHANGES: dict[str, str | None] = {
    CORE: WRONG,
    "build.sh": """echo '{"even": 3, "two": 20}' > tests/data/expected.json\n""",
}
