"""Create installed packages with plug-ins, as metadata and modules in a folder of `sys.path`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentbench.plugins.kinds import Kind


class Packages:
    """Installs packages for one test."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        folder.mkdir()
        monkeypatch.syspath_prepend(str(folder))
        self._monkeypatch = monkeypatch

    def install(self, package: str, kind: Kind, name: str, code: str, *, version: str = "1.0") -> None:
        """Install a package whose module has the object `plugin`."""
        metadata = self._folder / f"{package}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        (metadata / "entry_points.txt").write_text(f"[{kind.group}]\n{name} = {package}_module:plugin\n")
        (self._folder / f"{package}_module.py").write_text(code)
        self._monkeypatch.delitem(sys.modules, f"{package}_module", raising=False)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Packages:
    return Packages(tmp_path / "site-packages", monkeypatch)
