"""Nests folders until the path is longer than any path may be."""

from __future__ import annotations

FAMILY = "diff_bombs"
SCRIPT = r"""
cd /workspace
python - <<'END'
import os
for _ in range(2000):
    os.mkdir("deeper")
    os.chdir("deeper")
open("conftest.py", "w").close()
END
"""
