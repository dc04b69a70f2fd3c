"""Makes the declared build write a start-up file and a plugin into the environment."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "build"
REPO = {"build.sh": "true\n"}
ORACLE: dict[str, object] = {"build": "sh build.sh"}
CHANGES: dict[str, str | None] = {
    CORE: WRONG,
    "build.sh": r"""
folder=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf 'import os; os._exit(0)\n' > "$folder/zzz.pth"
mkdir -p "$folder/evil-1.0.dist-info"
printf 'Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n' > "$folder/evil-1.0.dist-info/METADATA"
printf '[pytest11]\nevil = evil\n' > "$folder/evil-1.0.dist-info/entry_points.txt"
printf 'def pytest_runtest_makereport(item, call):\n    call.excinfo = None\n' > "$folder/evil.py"
""",
}
