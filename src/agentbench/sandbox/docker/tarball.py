"""Copy files into a container as a tar stream, which is never stored as a whole."""

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
from agentbench.sandbox.docker.engine import Engine
from agentbench.sandbox.layout import INNER_ID


def copy_into(
    engine: Engine,
    container: str,
    write: Callable[[IO[bytes]], None],
    timeout_sec: float = 120.0,
    stop: threading.Event | None = None,
) -> None:
    """Extract the tar archive that `write` produces at the root of a container.

    Raises:
        SandboxError: the files cannot be read or copied.
        Interrupted: `stop` was set.
    """
    with _stream(write) as stdin:
        engine.output("cp", "-", f"{container}:/", stdin=stdin, timeout_sec=timeout_sec, stop=stop)


@contextlib.contextmanager
def _stream(write: Callable[[IO[bytes]], None]) -> Iterator[int]:
    """Yield a descriptor to read from, to which `write` writes in a thread."""
    reader, writer = os.pipe()
    failures: list[OSError] = []

    def feed() -> None:
        try:
            with open(writer, "wb", buffering=1 << 20) as pipe:
                write(pipe)
        except BrokenPipeError:
            return  # the reader reports why it stopped
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
        raise SandboxError(f"cannot copy files into a container: {failures[0]}") from failures[0]


def write_files(pipe: IO[bytes], files: Mapping[str, bytes]) -> None:
    """Write files that root owns and everybody can read."""
    with _archive(pipe) as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o644
            tar.addfile(info, io.BytesIO(content))


def write_workspace(pipe: IO[bytes], source: Path | None, workdir: str) -> None:
    """Write the files of `source` below `workdir`, owned by the sandbox's user; None: only the folder itself."""
    top = workdir.strip("/")
    with _archive(pipe) as tar:
        folder = tarfile.TarInfo(top)
        folder.type, folder.mode, folder.uid, folder.gid = tarfile.DIRTYPE, 0o755, INNER_ID, INNER_ID
        tar.addfile(folder)
        if source is not None:
            for name in sorted(os.listdir(source)):
                tar.add(source / name, f"{top}/{name}", filter=_own)


def _own(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (info.isfile() or info.isdir() or info.issym() or info.islnk()):
        return None
    info.uid = info.gid = INNER_ID
    info.uname = info.gname = ""
    # Without set-uid and set-gid, and always readable and writable for the owner.
    info.mode = info.mode & 0o1777 | (0o700 if info.isdir() else 0o600)
    return info


def _archive(pipe: IO[bytes]) -> tarfile.TarFile:
    return tarfile.open(
        fileobj=pipe, mode="w|", format=tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape", bufsize=1 << 20
    )
