"""A package index in a folder, with pure wheels of one module and optional upload times."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path


class PackageIndex:
    def __init__(self, folder: Path) -> None:
        self._files = folder / "files"
        self._simple = folder / "simple"
        self._files.mkdir(parents=True)
        self._simple.mkdir()

    @property
    def url(self) -> str:
        return self._simple.as_uri()

    def put(self, name: str, version: str, day: str | None = None, source: str = "", requires: str = "") -> None:
        """Add a release whose only module has the project's name."""
        requirement = f"Requires-Dist: {requires}\n" if requires else ""
        wheel = self._files / f"{name}-{version}-py3-none-any.whl"
        info = f"{name}-{version}.dist-info"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"{name}.py", source)
            metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requirement}"
            archive.writestr(f"{info}/METADATA", metadata)
            archive.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            archive.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        upload_time = f' data-upload-time="{day}T10:00:00Z"' if day else ""
        page = self._simple / name / "index.html"
        page.parent.mkdir(exist_ok=True)
        with page.open("a") as file:
            file.write(f'<a href="../../files/{wheel.name}#sha256={digest}"{upload_time}>{wheel.name}</a>\n')
