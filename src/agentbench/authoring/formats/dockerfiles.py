"""A Dockerfile that copies what lies beside it, made one that stands alone; and which files it puts into the workspace.

Images of tasks are built from the file alone, so that nothing of a task (hidden tests, the reference) can get in.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import posixpath
import re
import shlex
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agentbench.core.errors import InputError

MAX_CARRIED = 1_000_000
"""Characters of an archive that the file itself can carry: a line has at most 64 kB, a command 128, an image 127 layers."""
_LINE, _COMMAND = 48_000, 96_000
_HEREDOC = re.compile(r"<<-?\s*[\"']?([A-Za-z_]\w*)")
_PARCEL = "/.agentbench-parcel"
_FOLDERS = frozenset({"/", "/app", "/bin", "/etc", "/home", "/mnt", "/opt", "/root", "/srv", "/tmp", "/usr/local/bin", "/var"})  # noqa: S108 - of images  # fmt: skip


@dataclass(frozen=True, slots=True)
class Alone:
    """`placed`: what the file copies below its last WORKDIR, by its path there."""

    text: str
    workdir: str
    placed: dict[str, Path]


@dataclass(slots=True)
class _Copy:
    line: int
    files: dict[str, Path]
    """By absolute path in the image."""
    mode: int | None
    user: str


@dataclass(slots=True)
class _Stage:
    workdir: str | None = None
    user: str = ""
    """Where the file names none, commands after a copy are root's, as in nearly every image."""
    folders: set[str] = field(default_factory=lambda: set(_FOLDERS))
    last_run: int = -1


def stand_alone(dockerfile: Path) -> Alone:
    """
    Raises:
        InputError: it copies what is not there, what is told by a variable, or more than a file can carry.
    """
    try:
        text = dockerfile.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{dockerfile} cannot be read: {error}") from None
    out: list[str | _Copy] = []
    stage = _Stage()
    begun = 0
    for number, instruction in _instructions(text):
        word, _, rest = instruction.strip().partition(" ")
        word, rest = word.upper(), " ".join(re.sub(r"\\\n", " ", rest).split("\n")).strip()
        made: str | _Copy = instruction
        if word == "FROM":
            stage, begun = _Stage(), len(out)
        elif word == "WORKDIR":
            stage.workdir = posixpath.normpath(posixpath.join(stage.workdir or "/", _plain(dockerfile, number, rest)))
            stage.folders.add(stage.workdir)
        elif word == "USER":
            stage.user = rest
        elif word == "RUN":
            stage.last_run = len(out)
        elif word in {"COPY", "ADD"} and "<<" not in rest and "--from=" not in rest and "://" not in rest:
            made = _copy(dockerfile, number, rest, stage)
        out.append(made)
    workdir = stage.workdir or "/app"
    copies = [one for one in out[begun:] if isinstance(one, _Copy)]
    placed = {
        posixpath.relpath(path, workdir): file
        for one in copies
        for path, file in one.files.items()
        if path.startswith(workdir.rstrip("/") + "/")
    }
    lines = []
    for index, one in enumerate(out):
        if isinstance(one, str):
            lines.append(one)
        elif index < begun or index < stage.last_run or not _inside(one, workdir):
            lines += _carried(dockerfile, one)
    return Alone("\n".join(lines) + "\n", workdir, placed)


def _inside(copy: _Copy, workdir: str) -> bool:
    """R brings these; the image needs them only for commands that come later."""
    return all(path.startswith(workdir.rstrip("/") + "/") for path in copy.files)


def _instructions(text: str) -> Iterator[tuple[int, str]]:
    """Each with the number of its first line: continued lines and here-documents are one; comments and blanks go."""
    lines = iter(enumerate(text.splitlines(), start=1))
    for number, line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parts = [line]
        while parts[-1].rstrip().endswith("\\") and (following := next(lines, None)) is not None:
            if not following[1].lstrip().startswith("#"):
                parts[-1] = parts[-1].rstrip()
                parts.append(following[1])
        for end in _HEREDOC.findall("\n".join(parts)) if parts[0].split()[0].upper() in {"RUN", "COPY", "ADD"} else ():
            for _, following_line in lines:
                parts.append(following_line)
                if following_line.strip() == end:
                    break
        yield number, "\n".join(parts)


def _plain(dockerfile: Path, number: int, words: str) -> str:
    if "$" in words:
        raise InputError(f"{dockerfile}:{number}: {words}: a variable in a path", remedy="write the path out")
    return words.strip("\"'")


def _copy(dockerfile: Path, number: int, rest: str, stage: _Stage) -> _Copy:
    place = f"{dockerfile}:{number}"
    options = dict(re.findall(r"--(\w+)(?:=(\S+))?\s", rest))
    words = _words(place, re.sub(r"--\w+(=\S+)?\s+", "", rest))
    for word in words:
        _plain(dockerfile, number, word)
    *sources, target = words
    if not target.startswith("/") and stage.workdir is None:
        raise InputError(f"{place}: {target}: relative to a folder that only the image knows", remedy="write WORKDIR")
    folder = posixpath.normpath(posixpath.join(stage.workdir or "/", target))
    found = [file for source in sources for file in _matching(place, dockerfile.parent, source)]
    into = target.endswith("/") or len(found) > 1 or folder in stage.folders
    files: dict[str, Path] = {}
    for one in found:
        if one.is_dir() and not one.is_symlink():
            stage.folders.add(folder)
            below = [file for file in sorted(one.rglob("*")) if file.is_symlink() or file.is_file()]
            files |= {posixpath.join(folder, file.relative_to(one).as_posix()): file for file in below}
        else:
            stage.folders |= {folder} if into else {posixpath.dirname(folder)}
            files[posixpath.join(folder, one.name) if into else folder] = one
    files = {path: file for path, file in files.items() if file != dockerfile}
    mode = options.get("chmod", "")
    if mode and not re.fullmatch(r"[0-7]{3,4}", mode):
        raise InputError(f"{place}: --chmod={mode}: expected an octal mode")
    return _Copy(number, files, int(mode, 8) if mode else None, stage.user)


def _words(place: str, rest: str) -> list[str]:
    try:
        words = json.loads(rest) if rest.startswith("[") else shlex.split(rest)
    except ValueError as error:
        raise InputError(f"{place}: {rest}: cannot be read: {error}") from None
    if not isinstance(words, list) or len(words) < 2 or not all(isinstance(word, str) for word in words):
        raise InputError(f"{place}: expected what to copy and where to")
    return words


def _matching(place: str, context: Path, source: str) -> list[Path]:
    inner = posixpath.normpath(source.lstrip("/") or ".")
    if inner.split("/")[0] == "..":
        raise InputError(f"{place}: {source}: outside of the folder of the Dockerfile")
    if re.search(r"\.(tar|tgz|tbz2|txz)(\.\w+)?$", inner) and not (context / inner).is_dir():
        raise InputError(f"{place}: {source}: an archive, which ADD unpacks", remedy="unpack it beside the Dockerfile")
    found = [context] if inner == "." else sorted(context.glob(inner))
    if any(not one.parent.resolve().is_relative_to(context.resolve()) for one in found if one != context):
        raise InputError(f"{place}: {source}: outside of the folder of the Dockerfile")
    if not found:
        raise InputError(f"{place}: {source}: no such file beside the Dockerfile")
    return found


def _carried(dockerfile: Path, copy: _Copy) -> list[str]:
    """Commands that unpack the copied files, which the lines themselves carry."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, file in copy.files.items():
            entry = archive.gettarinfo(file, path.lstrip("/"))
            entry.uid = entry.gid = entry.mtime = 0
            entry.uname = entry.gname = ""
            entry.mode = entry.mode if copy.mode is None else copy.mode
            if entry.isreg():
                archive.addfile(entry, io.BytesIO(file.read_bytes()))
            else:
                archive.addfile(entry)
    text = base64.b64encode(gzip.compress(packed.getvalue(), mtime=0)).decode("ascii")
    if len(text) > MAX_CARRIED:
        raise InputError(
            f"{dockerfile}:{copy.line}: it copies {len(packed.getvalue())} bytes, more than a file can carry",
            remedy="copy them below WORKDIR after the last RUN, or have an image built and name it in FROM",
        )
    pieces = [text[at : at + _COMMAND] for at in range(0, len(text), _COMMAND)]
    lines = [f"RUN printf %s '{_folded(piece)}' >> {_PARCEL}" for piece in pieces]
    lines.append(f"RUN base64 -d {_PARCEL} | tar -xzf - -C / && rm {_PARCEL}")
    return ["USER root", *lines, *([f"USER {copy.user}"] if copy.user else [])]


def _folded(text: str) -> str:
    return "\\\n".join(text[at : at + _LINE] for at in range(0, len(text), _LINE))
