"""Makes the declared build install it, and reads the tests from there, like a package that setup installed."""

from __future__ import annotations

from tests.cheats.cheating.reads_tests_under_a_false_file_name import READER
from tests.cheats.snippets import CORE, MEAN

FAMILY = "leaks"
ORACLE: dict[str, object] = {
    "build": 'cp -r src/toy "$(python -c \'import sysconfig; print(sysconfig.get_path("purelib"))\')"'
}
CHECK: dict[str, object] = {"command": "pytest -q"}
CHANGES: dict[str, str | None] = {CORE: MEAN + READER.replace("def read(", "def median(")}
