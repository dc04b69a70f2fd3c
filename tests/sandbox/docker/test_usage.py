"""Measuring what a container uses."""

from __future__ import annotations

import os
from pathlib import Path

from agentbench.sandbox.docker.usage import measure_folder


def test_hard_links_occupy_their_space_once(tmp_path: Path) -> None:
    """Tools that link files instead of copying them would seem to exceed the disk limit."""
    (tmp_path / "file").write_bytes(os.urandom(1 << 20))
    (tmp_path / "other").write_bytes(os.urandom(1 << 20))
    for number in range(20):
        os.link(tmp_path / "file", tmp_path / f"link{number}")
    size, files, _ = measure_folder(tmp_path)
    assert (size >> 20, files) == (2, 22)
