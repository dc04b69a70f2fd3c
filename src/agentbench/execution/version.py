"""The version of the harness: its release, and the commit or the sources it was built from."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

import agentbench
from agentbench.core.canonical import sha256_hex

_PACKAGE = Path(agentbench.__file__).parent
_HEX = re.compile(r"^[0-9a-f]{40}$")


@functools.cache
def harness_version() -> str:
    """Return `0.1.0+g<commit>` in a checkout, `0.1.0+s<digest of the sources>` in an installation."""
    commit = _commit(_PACKAGE.parent.parent / ".git")
    suffix = f"g{commit[:7]}" if commit else f"s{sources_digest()[:12]}"
    return f"{agentbench.__version__}+{suffix}"


def _commit(git: Path) -> str | None:
    """Read HEAD from the files in `.git`, without starting a process."""
    try:
        head = (git / "HEAD").read_text().strip()
        if not head.startswith("ref: "):
            return head if _HEX.match(head) else None
        name = head.removeprefix("ref: ")
        loose = git / name
        if loose.is_file():
            return loose.read_text().strip()
        for line in (git / "packed-refs").read_text().splitlines():
            if line.endswith(" " + name):
                return line.split(" ", 1)[0]
    except OSError:
        return None
    return None


@functools.cache
def sources_digest() -> str:
    """Return the digest of the harness's own code, which a commit does not tell in a checkout with changes."""
    parts = []
    for folder, folders, files in os.walk(_PACKAGE):
        folders[:] = [name for name in folders if name not in {"demo", "__pycache__"}]
        inner = folder.removeprefix(str(_PACKAGE))
        parts += [
            f"{inner}/{name}\0{sha256_hex(Path(folder, name).read_bytes())}" for name in files if name.endswith(".py")
        ]
    return sha256_hex("\n".join(sorted(parts)).encode())
