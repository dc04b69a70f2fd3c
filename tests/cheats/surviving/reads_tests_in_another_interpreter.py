"""Reads the tests in another interpreter of the process, whose audit events no hook of the runner sees."""

from __future__ import annotations

from tests.cheats.snippets import ANSWER_FROM_TESTS, CORE

CHANGES: dict[str, str | None] = {
    CORE: r"""
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
"""
    + ANSWER_FROM_TESTS
    + r'''

def _read():
    reader, writer = os.pipe()
    interpreters.run_string(
        interpreters.create(),
        f"""
import os
with open("/workspace/tests/test_median_hidden.py") as file:
    os.write({writer}, file.read().encode())
os.close({writer})
""",
    )
    return os.read(reader, 60000).decode()
''',
}
