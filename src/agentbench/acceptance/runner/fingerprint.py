"""What the test runner is made of on disk, and what every interpreter runs when it starts.

Run after a build, which executes code of the candidate and may write to the environment. Started by the interpreter
behind the environment (`-I -S`), which no build can write to; folders and names come as JSON on stdin, the answer goes
to descriptor $AB_RESULT_FD.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys

LARGEST = 1 << 28
"""Bytes of a file that is read; a sparse one could keep us for hours."""


def digest(path: str) -> str:
    """Of a file, a link or a whole folder; bytecode apart, which is made from the rest.

    What cannot be read, or would be waited for, is what the build made of it: it has no digest, and is told as such.
    """
    whole = hashlib.sha256()
    try:
        if os.path.islink(path):  # noqa: PTH114
            whole.update(b"link " + os.fsencode(os.readlink(path)))  # noqa: PTH115
        elif os.path.isdir(path):  # noqa: PTH112
            for name in sorted(os.listdir(path)):  # noqa: PTH208
                if name != "__pycache__":
                    whole.update(os.fsencode(name) + b" " + digest(path + "/" + name).encode())
        elif os.path.isfile(path) and os.path.getsize(path) <= LARGEST:  # noqa: PTH113, PTH202
            with open(path, "rb") as file:  # noqa: PTH123
                for block in iter(lambda: file.read(1 << 20), b""):
                    whole.update(block)
        else:
            return "no file, or none that could be read"
    except (OSError, RecursionError) as error:
        return type(error).__name__
    return whole.hexdigest()


def listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208
    except OSError:
        return []


def listed_pythons(folder: str) -> list[str]:
    return [name for name in listed(folder) if name.startswith("python")]


def main() -> None:
    wanted = json.loads(sys.stdin.buffer.read())
    names = set(wanted["names"])
    found = {}
    for folder in wanted["folders"]:
        for name in listed(folder):
            module = name.split(".")[0]
            if module in names or module in {"sitecustomize", "usercustomize"} or name.endswith(".pth"):
                found[folder + "/" + name] = digest(folder + "/" + name)
    # Beside them, and above: where an interpreter of a virtual environment looks for its whole standard library.
    for name in (*listed_pythons(wanted["programs"]), "pytest", "pyvenv.cfg", "../pyvenv.cfg"):
        path = os.path.join(wanted["programs"], name)  # noqa: PTH118
        if os.path.lexists(path):
            found[path] = digest(path)
    with os.fdopen(int(os.environ["AB_RESULT_FD"]), "w") as channel:
        json.dump(found, channel)


if __name__ == "__main__":
    main()
