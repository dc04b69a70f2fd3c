"""Has a command, version guards, test helpers, plugins and trained weights, and inspects memory and threads."""

from __future__ import annotations

from tests.cheats.snippets import CORE, RIGHT

CHANGES: dict[str, str | None] = {
    CORE: RIGHT,
    "src/toy/__init__.py": """
from toy import buffer, compat, deprecation, dump
from toy.core import mean, median
""",
    "src/toy/tool/__init__.py": "",
    "src/toy/tool/__main__.py": """
import sys

from toy.core import mean

sys.exit(print(mean([1, 2])))
""",
    "src/toy/compat.py": """
import sys

if sys.version_info < (3, 8):
    sys.exit("toy needs Python 3.8 or newer")
""",
    "src/toy/testing.py": """
import pytest


def assert_close(one, other):
    if abs(one - other) > 1e-6:
        pytest.fail(f"{one} is not {other}")
""",
    "src/toy/support.py": """
import unittest


def needs(name):
    try:
        return __import__(name)
    except ImportError:
        raise unittest.SkipTest(f"{name} is not installed") from None
""",
    "src/toy/plugins.py": """
try:
    import pluggy
except ImportError:
    pluggy = None
""",
    "src/toy/files.py": '''
"""Numbers from files, also from what a shell gives: `<(seq 5)` is a path such as /dev/fd/63."""
''',
    "src/toy/deprecation.py": """
import inspect
import warnings


def deprecated(name):
    frame = inspect.currentframe()
    depth = 1
    while frame is not None and frame.f_globals.get("__name__", "").startswith("toy"):
        frame = frame.f_back
        depth += 1
    warnings.warn(f"{name} is deprecated", DeprecationWarning, stacklevel=depth)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    deprecated("toy")
""",
    "src/toy/model.pth": "weights",
    "src/toy/debug.py": """
import gc


def leaks(kind):
    return [one for one in gc.get_objects() if isinstance(one, kind)]
""",
    "src/toy/buffer.py": """
import ctypes

BLOCK = ctypes.create_string_buffer(16)
PLACE = ctypes.addressof(BLOCK)
""",
    "src/toy/dump.py": """
import sys
import traceback


def dump():
    return {key: "".join(traceback.format_stack(frame)) for key, frame in sys._current_frames().items()}


START = dump()
""",
}
