"""Opens the tests through an object that names their file only when it is opened."""

from __future__ import annotations

from tests.cheats.snippets import ANSWER_FROM_TESTS, CORE

FAMILY = "leaks"
CHANGES: dict[str, str | None] = {
    CORE: ANSWER_FROM_TESTS
    + """

import io
import pathlib


class _Place(pathlib.PosixPath):
    def __fspath__(self):
        return "/workspace/tests/test_median_hidden.py"


def _read():
    with io.FileIO(_Place("/dev/null")) as file:
        return file.read().decode()
""",
}
