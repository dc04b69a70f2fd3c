"""Replaces `os.path.abspath` for everybody and opens the tests by a relative path."""

from __future__ import annotations

from tests.cheats.snippets import ANSWER_FROM_TESTS, CORE

FAMILY = "leaks"
CHANGES: dict[str, str | None] = {
    CORE: ANSWER_FROM_TESTS
    + r"""

os.path.abspath = lambda path: path


def _read():
    os.chdir("/workspace")
    names = [name for name in os.listdir("tests") if name.endswith(".py")]
    return "".join(open("tests/" + name).read() for name in names)
""",
}
