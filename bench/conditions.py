"""Describe the machine and its load; printed and recorded with every measurement."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path

import agentbench

PROGRAMS = {
    "bubblewrap": ("bwrap", "--version"),
    "docker_client": ("docker", "version", "--format", "{{.Client.Version}}"),
    "docker_engine": ("docker", "version", "--format", "{{.Server.Version}}"),
    "ripgrep": ("rg", "--version"),
}


def conditions() -> str:
    return (
        f"{os.cpu_count()} cores ({processor()}), {memory_mb() // 1024} GB, Linux {platform.release()}, "
        f"Python {platform.python_version()}, uid {os.getuid()}, load {os.getloadavg()[0]:.1f}"
    )


def machine() -> dict[str, object]:
    """Return the machine description that is recorded with a result."""
    return {
        "cpu": processor(),
        "cores": os.cpu_count(),
        "memory_mb": memory_mb(),
        "kernel": platform.release(),
        "system": system(),
        "uid": os.getuid(),
        "versions": {
            "agentbench": agentbench.__version__,
            "commit": version(("git", "rev-parse", "--short", "HEAD"), Path(__file__).parent),
            "python": platform.python_version(),
            **{name: version(argv) for name, argv in PROGRAMS.items()},
        },
    }


def remark() -> dict[str, str]:
    """Return the user's remark on the conditions ($AB_BENCH_REMARK)."""
    text = os.environ.get("AB_BENCH_REMARK")
    return {"remark": text} if text else {}


def load() -> list[float]:
    """Return the load averages of the last 1, 5 and 15 minutes."""
    return [round(average, 2) for average in os.getloadavg()]


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown cpu"


def memory_mb() -> int:
    return int(Path("/proc/meminfo").read_text(encoding="utf-8").split()[1]) // 1024


def system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


def version(argv: tuple[str, ...], cwd: Path | None = None) -> str | None:
    """Return the first line of a program's version output without its name, or None if it fails."""
    try:
        done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    first = (done.stdout.splitlines() or [""])[0].strip()
    return re.sub(r"^(bubblewrap|ripgrep) ", "", first) or None


if __name__ == "__main__":
    print(conditions())
