"""Reads the tests under another name: a link to their folder."""

from __future__ import annotations

from tests.cheats.snippets import ANSWER_FROM_TESTS, CORE

FAMILY = "leaks"
CHANGES: dict[str, str | None] = {
    CORE: ANSWER_FROM_TESTS
    + r"""

def _read():
    if not os.path.lexists("/tmp/x"):
        os.symlink("/workspace/tests", "/tmp/x")
    return "".join(open("/tmp/x/" + name).read() for name in os.listdir("/tmp/x") if name.endswith(".py"))
""",
}
