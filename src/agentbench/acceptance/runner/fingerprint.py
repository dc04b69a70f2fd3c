"""Fingerprints what a build must leave alone: the test runner, installed dependencies, and start-up files.

Runs after a build, which executes candidate code and may write to the environment. It is started with the interpreter
behind the environment (`-I -S`), which no build can write to. The request comes as JSON on stdin, the answer goes to
descriptor $AB_RESULT_FD. Without expected bytecode in the request, it describes the base repository.

Bytecode is not compared: an honest build may write some. If it differs from what the base repository's build leaves, it
is removed, so that Python compiles the source again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import sys
import time
from typing import Any

MAX_FILE_BYTES = 1 << 28
"""Larger files are not read: a sparse file could take hours."""
CLOCK_MARGIN_SEC = 60
"""Files this much older than the sandbox are read as well, in case that the host's clock was set."""
UNTOUCHED = ""
"""In place of a digest: nothing was written since the sandbox was opened."""
BYTECODE = "__pycache__"
STARTUP_MODULES = frozenset({"sitecustomize", "usercustomize"})


def digest(path: str, *, bytecode: bool) -> str:
    """Return the digest of a file, a link or a whole folder: of its bytecode, or of everything else.

    Files that cannot be read, or would block, get a text in place of a digest: the build left them like that.
    """
    combined = hashlib.sha256()
    in_cache = os.path.basename(path) == BYTECODE or "/" + BYTECODE + "/" in path  # noqa: PTH119
    try:
        if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
            for name in sorted(os.listdir(path)):  # noqa: PTH208
                if bytecode or name != BYTECODE:
                    combined.update(os.fsencode(name) + b" " + digest(path + "/" + name, bytecode=bytecode).encode())
        elif bytecode != in_cache:
            return ""
        elif os.path.islink(path):  # noqa: PTH114
            combined.update(b"link " + os.fsencode(os.readlink(path)))  # noqa: PTH115
        elif os.path.isfile(path) and os.path.getsize(path) <= MAX_FILE_BYTES:  # noqa: PTH113, PTH202
            with open(path, "rb") as file:  # noqa: PTH123
                for block in iter(lambda: file.read(1 << 20), b""):
                    combined.update(block)
        else:
            return "not a readable file"
    except (OSError, RecursionError) as error:
        return type(error).__name__
    return combined.hexdigest()


def is_written(path: str, since: float) -> bool:
    """Return whether something at or below a path was changed since a time. No program can set the time of a change."""
    try:
        status = os.lstat(path)
        if status.st_ctime >= since or not stat.S_ISDIR(status.st_mode):
            return status.st_ctime >= since
        return any(is_written(path + "/" + name, since) for name in os.listdir(path))  # noqa: PTH208
    except (OSError, RecursionError):
        return True


def remove_bytecode(path: str) -> bool:
    """Remove all bytecode at or below a path. Return whether none is left."""
    try:
        if os.path.basename(path) == BYTECODE:  # noqa: PTH119
            if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
                shutil.rmtree(path)
            else:
                os.unlink(path)  # noqa: PTH108
            return True
        if os.path.islink(path) or not os.path.isdir(path):  # noqa: PTH112, PTH114
            return True
        return all([remove_bytecode(path + "/" + name) for name in os.listdir(path)])  # noqa: C419, PTH208
    except (OSError, RecursionError):
        return False


def sandbox_start() -> float:
    """Return when process 1 of the sandbox was started, as the time of the system's clock."""
    with open("/proc/1/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123
        ticks = int(file.read().rpartition(")")[2].split()[19])
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age


def list_folder(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208
    except OSError:
        return []


def list_pythons(folder: str) -> list[str]:
    return [name for name in list_folder(folder) if name.startswith("python")]


def read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return ""


def dependencies(folder: str) -> set[str]:
    """Return the modules that distributions in a folder list as theirs, without projects installed from a folder."""
    modules = set()
    for name in list_folder(folder):
        if not name.endswith(".dist-info") or '"dir_info"' in read_text(folder + "/" + name + "/direct_url.json"):
            continue
        lines = read_text(folder + "/" + name + "/RECORD").splitlines()
        modules |= {line.split(",")[0].split("/")[0].split(".")[0] for line in lines}
    return {module for module in modules if module.isidentifier() and module != BYTECODE}


def compare_folder(folder: str, request: dict[str, Any], answer: dict[str, dict[str, str]]) -> None:
    """Add the modules of a folder to the answer, and remove bytecode that a candidate's build wrote."""
    surveying = request["bytecode"] is None
    modules = dependencies(folder) if surveying else request["dependencies"]
    since = sandbox_start() - (0 if surveying else CLOCK_MARGIN_SEC)
    for name in list_folder(folder):
        module, path = name.split(".")[0], folder + "/" + name
        in_runner = module in request["runner"] or module in STARTUP_MODULES or name.endswith(".pth")
        if not in_runner and module not in modules and name != BYTECODE:
            continue
        written = is_written(path, since)
        # The base repository's build may write a dependency. Nothing is known then about what a candidate's writes.
        if name != BYTECODE and (in_runner or not (surveying and written)):
            kind = "runner" if in_runner else "dependencies"
            answer[kind][path] = digest(path, bytecode=False) if surveying or written else UNTOUCHED
        if surveying:
            answer["bytecode"][path] = digest(path, bytecode=True)
        elif written and digest(path, bytecode=True) != request["bytecode"].get(path) and not remove_bytecode(path):
            answer["runner"][path + "/" + BYTECODE] = "cannot be removed"


def main() -> None:
    request = json.loads(sys.stdin.buffer.read())
    answer: dict[str, dict[str, str]] = {"runner": {}, "dependencies": {}, "bytecode": {}}
    for folder in request["folders"]:
        compare_folder(folder, request, answer)
    # Also next to and above the programs: an interpreter in a virtual environment looks there for its standard library.
    for name in (*list_pythons(request["programs"]), "pytest", "pyvenv.cfg", "../pyvenv.cfg"):
        path = os.path.join(request["programs"], name)  # noqa: PTH118
        if os.path.lexists(path):
            answer["runner"][path] = digest(path, bytecode=False)
    with os.fdopen(int(os.environ["AB_RESULT_FD"]), "w") as channel:
        json.dump(answer, channel)


if __name__ == "__main__":
    main()
