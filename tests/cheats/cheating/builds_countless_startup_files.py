"""Makes the declared build write more start-up files than can be listed, to look like a harness error."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "infrastructure"
REPO = {"build.sh": "true\n"}
ORACLE: dict[str, object] = {"build": "sh build.sh"}
CHANGES: dict[str, str | None] = {
    CORE: WRONG,
    "build.sh": r"""
python - <<'END'
import os, sysconfig
os.chdir(sysconfig.get_path("purelib"))
for number in range(12_000):  # each of these bytes takes six in a report
    os.close(os.open("\1" * 240 + f"{number}.pth", os.O_CREAT | os.O_WRONLY))
END
""",
}
