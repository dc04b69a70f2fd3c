"""Builds bundles with members that `write_bundle` would never write."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import zstandard


def pack(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    """Write a bundle with these members and a `run.json`."""
    data = io.BytesIO()
    with tarfile.open(mode="w", fileobj=data) as tar:
        for info, content in (member("run/run.json", b"{}"), *members):
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    path.write_bytes(zstandard.compress(data.getvalue()))
    return path


def member(
    name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info, content
