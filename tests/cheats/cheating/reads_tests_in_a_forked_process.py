"""Reads the tests in a forked process, which cannot report anything."""

from __future__ import annotations

from tests.cheats.snippets import ANSWER_FROM_TESTS, CORE

FAMILY = "leaks"
CHANGES: dict[str, str | None] = {
    CORE: ANSWER_FROM_TESTS
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
