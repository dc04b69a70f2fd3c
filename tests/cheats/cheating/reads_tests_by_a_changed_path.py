"""Changes what an absolute path is for everybody, and opens the tests by a relative one."""

from __future__ import annotations

from tests.cheats.planted import CORE, READS_TESTS

FAMILY = "leaks"
CHANGES: dict[str, str | None] = {
    CORE: READS_TESTS
    + r"""

os.path.abspath = lambda path: path


def _read():
    os.chdir("/workspace")
    names = [name for name in os.listdir("tests") if name.endswith(".py")]
    return "".join(open("tests/" + name).read() for name in names)
""",
}
