"""Makes the declared build leave an unreadable folder and a pipe where the runner is examined afterwards."""

from __future__ import annotations

FAMILY = "infrastructure"
REPO = {"build.py": ""}
ORACLE: dict[str, object] = {"build": "python build.py"}
CHANGES: dict[str, str | None] = {
    "build.py": r"""
import os
import sysconfig

place = sysconfig.get_path("purelib")
os.mkdir(place + "/numpy", 0)
os.mkfifo(place + "/waits.pth")
""",
}
# Python waits for the pipe at its start until the check times out.
TIMEOUT_SEC = 15
