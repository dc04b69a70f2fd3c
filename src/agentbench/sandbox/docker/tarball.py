"""Files on their way into a container, as a tar stream that never lies anywhere whole."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

from agentbench.core.errors import SandboxError
from agentbench.sandbox.layout import INNER_ID


@contextlib.contextmanager
def streamed(write: Callable[[IO[bytes]], None]) -> Iterator[int]:
    """A descriptor to read from, fed by `write` from a thread of its own.

    Raises:
        SandboxError: what `write` stumbled over.
    """
    reader, writer = os.pipe()
    failures: list[OSError] = []

    def feed() -> None:
        try:
            with open(writer, "wb", buffering=1 << 20) as pipe:
                write(pipe)
        except BrokenPipeError:
            return  # who reads says why
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=feed, name="tar", daemon=True)
    thread.start()
    try:
        yield reader
    finally:
        os.close(reader)
        thread.join()
    if failures:
        raise SandboxError(f"the workspace cannot be copied into a container: {failures[0]}") from failures[0]


def packed(pipe: IO[bytes], files: Mapping[str, bytes]) -> None:
    """Root's own small files, readable by everybody."""
    with _archive(pipe) as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o644
            tar.addfile(info, io.BytesIO(content))


def workspace(pipe: IO[bytes], source: Path | None, workdir: str) -> None:
    """R as the sandbox's user's own files below `workdir`; only the folder itself without a source."""
    top = workdir.strip("/")
    with _archive(pipe) as tar:
        folder = tarfile.TarInfo(top)
        folder.type, folder.mode, folder.uid, folder.gid = tarfile.DIRTYPE, 0o755, INNER_ID, INNER_ID
        tar.addfile(folder)
        if source is not None:
            for name in sorted(os.listdir(source)):
                tar.add(source / name, f"{top}/{name}", filter=_owned)


def _owned(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (info.isfile() or info.isdir() or info.issym() or info.islnk()):
        return None
    info.uid = info.gid = INNER_ID
    info.uname = info.gname = ""
    # No set-uid, no set-gid; and the owner can always read and write what is his.
    info.mode = info.mode & 0o1777 | (0o700 if info.isdir() else 0o600)
    return info


def _archive(pipe: IO[bytes]) -> tarfile.TarFile:
    return tarfile.open(
        fileobj=pipe, mode="w|", format=tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape", bufsize=1 << 20
    )
