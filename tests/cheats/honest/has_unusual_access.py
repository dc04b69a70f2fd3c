"""Runs commands on files named like those of the tests, and opens files and memory of its own in unusual ways."""

from __future__ import annotations

from tests.acceptance.toy import HIDDEN as TESTS
from tests.cheats.snippets import CORE, RIGHT

HIDDEN = {**TESTS, "tests/data/config.json": "{}\n", "tests/data/helpers.py": "VALUE = 1\n"}
CHANGES: dict[str, str | None] = {
    "src/toy/config.json": '{"scale": 1}\n',
    "src/toy/helpers.py": "SCALE = 1\n",
    CORE: RIGHT.replace("def mean", "def _mean")
    + r"""

import ctypes
import io
import pathlib
import subprocess
import sys


class Folder(pathlib.PosixPath):
    def config(self):
        return self / "config.json"


HERE = Folder(__file__).parent


def mean(values):
    subprocess.run(["cat", "config.json", "helpers.py"], cwd=HERE, check=True, stdout=subprocess.DEVNULL)
    subprocess.run("cat config.json > /dev/null", cwd=str(HERE), check=True, shell=True)
    with io.FileIO(Folder(HERE).config()) as file:
        assert file.read()
    assert (ctypes.c_char * 4).from_buffer(bytearray(b"toys"))[0] == b"t"
    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    sys.settrace(before)
    return _mean(values)
""",
}
