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


def digest(path: str) -> str:
    """Of a file, a link or a whole folder; bytecode apart, which is made from the rest."""
    whole = hashlib.sha256()
    if os.path.islink(path):  # noqa: PTH114
        whole.update(b"link " + os.fsencode(os.readlink(path)))  # noqa: PTH115
    elif os.path.isdir(path):  # noqa: PTH112
        for name in sorted(os.listdir(path)):  # noqa: PTH208
            if name != "__pycache__":
                whole.update(os.fsencode(name) + b" " + digest(path + "/" + name).encode())
    else:
        with open(path, "rb") as file:  # noqa: PTH123
            for block in iter(lambda: file.read(1 << 20), b""):
                whole.update(block)
    return whole.hexdigest()


def main() -> None:
    wanted = json.loads(sys.stdin.buffer.read())
    names = set(wanted["names"])
    found = {}
    for folder in wanted["folders"]:
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():  # noqa: PTH112, PTH208
            module = name.split(".")[0]
            if module in names or module in {"sitecustomize", "usercustomize"} or name.endswith(".pth"):
                found[folder + "/" + name] = digest(folder + "/" + name)
    for name in ("python", "python3", "pytest"):
        path = os.path.join(wanted["programs"], name)  # noqa: PTH118
        if os.path.lexists(path):
            found[path] = digest(path)
    with os.fdopen(int(os.environ["AB_RESULT_FD"]), "w") as channel:
        json.dump(found, channel)


if __name__ == "__main__":
    main()
