"""The environment that `ab` is installed in: how to install into it, and distributions that overwrite files of the package."""

from __future__ import annotations

import os
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

DISTRIBUTION = "agentbench-harness"
PACKAGE = "agentbench"
_NAMESAKE = re.compile(rf"{PACKAGE}-[^-]+\.(?:dist|egg)-info", re.IGNORECASE)


def python_command() -> str:
    """Return the interpreter of this environment as it can be typed: `python` if that is the one on the PATH."""
    from agentbench.core.text import shell_quoted

    return "python" if shutil.which("python") == sys.executable else shell_quoted(sys.executable)


def install_commands(arguments: str) -> list[str]:
    """Return the commands that install into this environment. One that uv created has no pip."""
    python = python_command()
    if find_spec("pip") is None and (shutil.which("uv") is not None or find_spec("ensurepip") is None):
        return [f"uv pip install --python {python} {arguments}"]
    pip = f"{python} -m pip install {arguments}"
    return [pip] if find_spec("pip") is not None else [f"{python} -m ensurepip", pip]


def installed_namesake() -> str | None:
    """Return the metadata folder of the distribution called `agentbench`, if it is installed beside this package.

    Only lists the folders, which takes less than a millisecond: every command does it.
    """
    own = Path(__file__).parents[2]
    folders = dict.fromkeys((str(own), *(path for path in sys.path if path.endswith("-packages"))))
    for folder in folders:
        try:
            names = os.listdir(folder)  # noqa: PTH208 - pathlib is slower
        except OSError:
            continue
        namesake = next((name for name in names if _NAMESAKE.fullmatch(name)), None)
        if namesake is not None:
            return os.path.join(folder, namesake)  # noqa: PTH118
    return None


def foreign_distributions() -> list[str]:
    """Return every other distribution that owns files of the package. Reads the metadata of all distributions."""
    from importlib.metadata import packages_distributions

    owners = packages_distributions().get(PACKAGE, [])
    named = [PACKAGE] if installed_namesake() is not None else []
    return sorted({*(name for name in owners if name.lower().replace("_", "-") != DISTRIBUTION), *named})


def remedy(distribution: str = PACKAGE) -> str:
    return (
        f"python -m pip uninstall {distribution}, then python -m pip install --force-reinstall --no-deps "
        f"{DISTRIBUTION} (or the wheel it came from)"
    )
