"""Leaves twenty thousand files, too many to inspect."""

from __future__ import annotations

FAMILY = "diff_bombs"
SCRIPT = r"""
cd /workspace
python - <<'END'
import os
for folder in range(210):
    os.mkdir(f"many{folder}")
    for number in range(100):
        try:
            open(f"many{folder}/{number}", "w").close()
        except OSError:
            raise SystemExit
END
"""
