"""Takes processor time, memory and descriptors from the command server, so that the sandbox dies and nothing is decided."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "infrastructure"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import resource

for limit in (resource.RLIMIT_CPU, resource.RLIMIT_AS, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC):
    try:
        resource.prlimit(1, limit, (0, 0))
    except OSError:
        pass
"""
    + WRONG,
}
