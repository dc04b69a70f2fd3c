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


def test_folders_too_deep_to_be_measured_are_reported(tmp_path: Path) -> None:
    tmp_path.joinpath(*["a"] * 40).mkdir(parents=True)
    assert measure_folder(tmp_path) == (0, 40, False)
    tmp_path.joinpath(*["b"] * 400).mkdir(parents=True)
    size, files, too_deep = measure_folder(tmp_path)
    assert (size, too_deep) == (0, True)
    assert files < 400
