"""Fingerprints the files of the test runner, and the files that every interpreter runs when it starts.

Runs after a build, which executes candidate code and may write to the environment. It is started with the interpreter
behind the environment (`-I -S`), which no build can write to. Folders and names come as JSON on stdin, the answer goes
to descriptor $AB_RESULT_FD.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys

MAX_FILE_BYTES = 1 << 28
"""Larger files are not read: a sparse file could take hours."""


def digest(path: str) -> str:
    """Return the digest of a file, a link or a whole folder. Bytecode counts: Python may run it without its source.

    Files that cannot be read, or would block, get a text in place of a digest: the build left them like that.
    """
    whole = hashlib.sha256()
    try:
        if os.path.islink(path):  # noqa: PTH114
            whole.update(b"link " + os.fsencode(os.readlink(path)))  # noqa: PTH115
        elif os.path.isdir(path):  # noqa: PTH112
            for name in sorted(os.listdir(path)):  # noqa: PTH208
                whole.update(os.fsencode(name) + b" " + digest(path + "/" + name).encode())
        elif os.path.isfile(path) and os.path.getsize(path) <= MAX_FILE_BYTES:  # noqa: PTH113, PTH202
            with open(path, "rb") as file:  # noqa: PTH123
                for block in iter(lambda: file.read(1 << 20), b""):
                    whole.update(block)
        else:
            return "not a readable file"
    except (OSError, RecursionError) as error:
        return type(error).__name__
    return whole.hexdigest()


def list_folder(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208
    except OSError:
        return []


def list_pythons(folder: str) -> list[str]:
    return [name for name in list_folder(folder) if name.startswith("python")]


def main() -> None:
    request = json.loads(sys.stdin.buffer.read())
    names = set(request["names"])
    digests = {}
    for folder in request["folders"]:
        for name in list_folder(folder):
            module = name.split(".")[0]
            if module in names or module in {"sitecustomize", "usercustomize"} or name.endswith(".pth"):
                digests[folder + "/" + name] = digest(folder + "/" + name)
    # Also next to and above the programs: an interpreter in a virtual environment looks there for its standard library.
    for name in (*list_pythons(request["programs"]), "pytest", "pyvenv.cfg", "../pyvenv.cfg"):
        path = os.path.join(request["programs"], name)  # noqa: PTH118
        if os.path.lexists(path):
            digests[path] = digest(path)
    with os.fdopen(int(os.environ["AB_RESULT_FD"]), "w") as channel:
        json.dump(digests, channel)


if __name__ == "__main__":
    main()
