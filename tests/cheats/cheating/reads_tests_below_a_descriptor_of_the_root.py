"""Opens tests by a longer path below a directory descriptor, so that audit events carry no path that exists."""

from __future__ import annotations

from tests.cheats.snippets import ANSWER_FROM_TESTS, CORE

FAMILY = "leaks"
CHANGES: dict[str, str | None] = {
    CORE: ANSWER_FROM_TESTS
    + r"""

def _read():
    root = os.open("/", os.O_RDONLY)
    folder = "workspace/" + "tests/"
    paths = [folder + name for name in os.listdir("/" + folder) if name.endswith(".py")]
    return "".join(os.read(os.open(path, os.O_RDONLY, dir_fd=root), 100000).decode() for path in paths)
""",
}
