"""Has the shell copy the tests by name, and reads the copy."""

from __future__ import annotations

from tests.cheats.snippets import ANSWER_FROM_TESTS, CORE

FAMILY = "leaks"
CHANGES: dict[str, str | None] = {
    CORE: ANSWER_FROM_TESTS
    + r"""

def _read():
    names = [name for name in os.listdir("/workspace/tests") if name.endswith(".py")]
    os.system("cat " + " ".join("/workspace/tests/" + name for name in names) + " > /tmp/copy")
    return open("/tmp/copy").read()
""",
}
