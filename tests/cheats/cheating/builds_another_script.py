"""Makes the declared build overwrite the protected script that the check's command runs."""

from __future__ import annotations

from tests.cheats.cheating.makefile_always_succeeds import CHECK
from tests.cheats.snippets import CORE, WRONG

__all__ = ["CHANGES", "CHECK", "FAMILY", "ORACLE", "REPO"]

FAMILY = "build"
REPO = {"check.sh": "exec python -m pytest -q tests\n", "build.sh": "true\n"}
ORACLE: dict[str, object] = {"protected": ["check.sh"], "build": "sh build.sh"}
CHANGES: dict[str, str | None] = {CORE: WRONG, "build.sh": "echo exit 0 > check.sh\n"}
