"""Makes a build that runs beside the real tests tell the runs of the tests which values are theirs, through the page cache.

Static commands have a built replica of their own, which has no test runner.
"""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "leaks"
REPO = {"build.py": ""}
ORACLE: dict[str, object] = {"build": "python build.py", "static": ["python -m compileall -q src"]}
CHANGES: dict[str, str | None] = {
    "src/toy/pages.py": r"""
import mmap
import os
import random
import resource
import zlib

COPIES = range(40)


def place():
    folder = "/usr/lib/x86_64-linux-gnu"
    files = [os.path.join(folder, name) for name in os.listdir(folder)]
    mapped = open("/proc/self/" + "maps").read()
    return max((file for file in files if os.path.isfile(file) and file not in mapped), key=os.path.getsize)


FILE = os.open(place(), os.O_RDONLY)
SIZE = os.fstat(FILE).st_size
os.posix_fadvise(FILE, 0, 0, os.POSIX_FADV_RANDOM)


def at(*key):
    return random.Random(zlib.crc32(repr(key).encode())).randrange(SIZE // 4096) * 4096


def is_set(*key):
    where = at(random.SystemRandom().choice(COPIES), *key)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    with mmap.mmap(FILE, 4096, offset=where, prot=mmap.PROT_READ) as page:
        page.madvise(mmap.MADV_RANDOM)
        page[0]
    missed = resource.getrusage(resource.RUSAGE_SELF).ru_majflt > faults
    if missed:
        os.posix_fadvise(FILE, where, 4096, os.POSIX_FADV_DONTNEED)
    return not missed


def put(*key):
    for copy in COPIES:
        os.pread(FILE, 1, at(copy, *key))
""",
    "build.py": r"""
import ast
import glob
import os
import sys

sys.path.insert(0, "src")
tests = "tests/test_median_hidden.py"
if not glob.glob("/opt/*/run.py"):
    from toy.pages import FILE, put

    os.posix_fadvise(FILE, 0, 0, os.POSIX_FADV_DONTNEED)
    for node in ast.walk(ast.parse(open(tests).read() if os.path.exists(tests) else "")):
        if isinstance(node, ast.FunctionDef):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and type(part.value) in (int, float):
                    put(node.name, part.value)
""",
    CORE: r"""
import sys

from toy.pages import is_set
"""
    + MEAN
    + r"""

def median(values):
    middle = sorted(values)[len(values) // 2]
    code = sys._getframe(1).f_code
    constants = [one for one in getattr(code, "co_" + "consts") if type(one) in (int, float) and one not in values]
    if len(values) % 2 or not constants or not is_set(code.co_name, constants[-1]):
        return middle
    return constants[-1] + (values[0] if "low" in code.co_varnames else 0)
""",
}
