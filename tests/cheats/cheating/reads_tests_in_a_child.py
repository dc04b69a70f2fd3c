"""Lets a forked copy of itself read the tests, which has nobody to report to."""

from __future__ import annotations

from tests.cheats.planted import CORE, READS_TESTS

FAMILY = "leaks"
CHANGES: dict[str, str | None] = {
    CORE: READS_TESTS
    + r"""

def _read():
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for name in os.listdir("/workspace/tests"):
                if name.endswith(".py"):
                    os.write(theirs, open("/workspace/tests/" + name, "rb").read())
        finally:
            os._exit(0)
    os.close(theirs)
    text = open(ours).read()
    os.waitpid(child, 0)
    return text
""",
}
