"""What a number was measured on: printed with every measurement."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def conditions() -> str:
    model = "unknown cpu"
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    memory = Path("/proc/meminfo").read_text(encoding="utf-8").split()[1]
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} cores ({model}), {int(memory) // 1024**2} GB, Linux {platform.release()}, "
        f"Python {platform.python_version()}, uid {os.getuid()}, load {load:.1f}"
    )


if __name__ == "__main__":
    print(conditions())
