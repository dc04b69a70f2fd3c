"""Turn a Dockerfile that copies files beside it into a standalone one, and list the files it copies into the workspace.

Images of tasks are built from the Dockerfile alone, so that hidden tests and references cannot get into an image.
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
from dataclasses import field
from pathlib import Path

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError

MAX_EMBEDDED = 1_000_000
"""Characters of an archive that can be embedded: a line has at most 64 kB, a command 128 kB, an image 127 layers."""
_LINE, _COMMAND = 48_000, 96_000
_HEREDOC = re.compile(r"<<-?\s*[\"']?([A-Za-z_]\w*)")
_PARCEL = "/.agentbench-parcel"
_FOLDERS = frozenset({"/", "/app", "/bin", "/etc", "/home", "/mnt", "/opt", "/root", "/srv", "/tmp", "/usr/local/bin", "/var"})  # noqa: S108 - of images  # fmt: skip


@dataclass(frozen=True, slots=True)
class StandaloneDockerfile:
    """A Dockerfile without a build context."""

    text: str
    workdir: str
    workspace_files: dict[str, Path]
    """Files that the original copies below its last WORKDIR, by their path there."""


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
    """Empty if the file has no USER; commands then run as root, as in nearly every image."""
    folders: set[str] = field(default_factory=lambda: set(_FOLDERS))
    last_run: int = -1


def make_standalone(dockerfile: Path) -> StandaloneDockerfile:
    """Embed the copied files into a Dockerfile, except those that the base repository provides.

    Raises:
        InputError: it copies a missing file, a path with a variable, or more than a Dockerfile can embed.
    """
    try:
        text = dockerfile.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{dockerfile}: cannot read: {error}") from None
    steps: list[str | _Copy] = []
    stage = _Stage()
    last_stage = 0
    for number, instruction in _instructions(text):
        word, _, rest = instruction.strip().partition(" ")
        word, rest = word.upper(), " ".join(re.sub(r"\\\n", " ", rest).split("\n")).strip()
        step: str | _Copy = instruction
        if word == "FROM":
            stage, last_stage = _Stage(), len(steps)
        elif word == "WORKDIR":
            stage.workdir = posixpath.normpath(posixpath.join(stage.workdir or "/", _plain(dockerfile, number, rest)))
            stage.folders.add(stage.workdir)
        elif word == "USER":
            stage.user = rest
        elif word == "RUN":
            stage.last_run = len(steps)
        elif word in {"COPY", "ADD"} and "<<" not in rest and "--from=" not in rest and "://" not in rest:
            step = _copy(dockerfile, number, rest, stage)
        steps.append(step)
    workdir = stage.workdir or "/app"
    workspace = workdir.rstrip("/") + "/"
    copies = [step for step in steps[last_stage:] if isinstance(step, _Copy)]
    workspace_files = {
        posixpath.relpath(path, workdir): file
        for copy in copies
        for path, file in copy.files.items()
        if path.startswith(workspace)
    }
    lines = []
    for index, step in enumerate(steps):
        if isinstance(step, str):
            lines.append(step)
        # The base repository provides the files that are copied into the workspace after the last command.
        elif index < max(last_stage, stage.last_run) or not all(path.startswith(workspace) for path in step.files):
            lines += _embed(dockerfile, step)
    return StandaloneDockerfile("\n".join(lines) + "\n", workdir, workspace_files)


def _instructions(text: str) -> Iterator[tuple[int, str]]:
    """Yield instructions with their first line number, joining continued lines and here-documents; skip comments."""
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
        raise InputError(
            f"{dockerfile}:{number}: {words}: variables in paths are not supported", remedy="write the path out"
        )
    return words.strip("\"'")


def _copy(dockerfile: Path, number: int, rest: str, stage: _Stage) -> _Copy:
    place = f"{dockerfile}:{number}"
    options = dict(re.findall(r"--(\w+)(?:=(\S+))?\s", rest))
    words = _words(place, re.sub(r"--\w+(=\S+)?\s+", "", rest))
    for word in words:
        _plain(dockerfile, number, word)
    *sources, target = words
    if not target.startswith("/") and stage.workdir is None:
        raise InputError(
            f"{place}: {target}: relative to the image's unknown working directory", remedy="add a WORKDIR"
        )
    folder = posixpath.normpath(posixpath.join(stage.workdir or "/", target))
    matches = [file for source in sources for file in _matching(place, dockerfile.parent, source)]
    into_folder = target.endswith("/") or len(matches) > 1 or folder in stage.folders
    files: dict[str, Path] = {}
    for match in matches:
        if match.is_dir() and not match.is_symlink():
            stage.folders.add(folder)
            below = [file for file in sorted(match.rglob("*")) if file.is_symlink() or file.is_file()]
            files |= {posixpath.join(folder, file.relative_to(match).as_posix()): file for file in below}
        else:
            stage.folders |= {folder} if into_folder else {posixpath.dirname(folder)}
            files[posixpath.join(folder, match.name) if into_folder else folder] = match
    files = {path: file for path, file in files.items() if file != dockerfile}
    mode = options.get("chmod", "")
    if mode and not re.fullmatch(r"[0-7]{3,4}", mode):
        raise InputError(f"{place}: --chmod={mode}: expected an octal mode")
    return _Copy(number, files, int(mode, 8) if mode else None, stage.user)


def _words(place: str, rest: str) -> list[str]:
    try:
        words = json.loads(rest) if rest.startswith("[") else shlex.split(rest)
    except ValueError as error:
        raise InputError(f"{place}: {rest}: cannot parse: {error}") from None
    if not isinstance(words, list) or len(words) < 2 or not all(isinstance(word, str) for word in words):
        raise InputError(f"{place}: expected a source and a destination")
    return words


def _matching(place: str, context: Path, source: str) -> list[Path]:
    inner = posixpath.normpath(source.lstrip("/") or ".")
    if inner.split("/")[0] == "..":
        raise InputError(f"{place}: {source}: outside the folder of the Dockerfile")
    if re.search(r"\.(tar|tgz|tbz2|txz)(\.\w+)?$", inner) and not (context / inner).is_dir():
        raise InputError(f"{place}: {source}: archives are not supported", remedy="unpack it beside the Dockerfile")
    matches = [context] if inner == "." else sorted(context.glob(inner))
    if any(not match.parent.resolve().is_relative_to(context.resolve()) for match in matches if match != context):
        raise InputError(f"{place}: {source}: outside the folder of the Dockerfile")
    if not matches:
        raise InputError(f"{place}: {source}: no such file beside the Dockerfile")
    return matches


def _embed(dockerfile: Path, copy: _Copy) -> list[str]:
    """Return commands that contain the copied files as an archive and unpack it."""
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
    if len(text) > MAX_EMBEDDED:
        raise InputError(
            f"{dockerfile}:{copy.line}: copies {len(packed.getvalue())} bytes, too many to embed in a Dockerfile",
            remedy="copy them below WORKDIR after the last RUN, or build an image with them and name it in FROM",
        )
    pieces = [text[at : at + _COMMAND] for at in range(0, len(text), _COMMAND)]
    lines = [f"RUN printf %s '{_folded(piece)}' >> {_PARCEL}" for piece in pieces]
    lines.append(f"RUN base64 -d {_PARCEL} | tar -xzf - -C / && rm {_PARCEL}")
    return ["USER root", *lines, *([f"USER {copy.user}"] if copy.user else [])]


def _folded(text: str) -> str:
    return "\\\n".join(text[at : at + _LINE] for at in range(0, len(text), _LINE))
