"""Reads from the kernel how long processes of this machine waited for a CPU."""

from __future__ import annotations

import re
from pathlib import Path

_PRESSURE = Path("/proc/pressure/cpu")


def cpu_wait_sec() -> float:
    """Return for how many seconds since the start of the machine at least one process waited; 0 if the kernel does not say."""
    try:
        waited_us = re.search(r"^some .*total=(\d+)", _PRESSURE.read_text("ascii"), re.MULTILINE)
    except OSError:
        return 0.0
    return int(waited_us[1]) / 1e6 if waited_us else 0.0
