"""Compiled code in a patch is a note for review, whatever its name."""

from __future__ import annotations

import io
import py_compile
import zipfile
from pathlib import Path

import pydantic_core
import pytest

from agentbench.acceptance.inspection.compiled_files import compiled_kind
from agentbench.acceptance.inspection.inspect_patch import InspectedPatch, inspect
from agentbench.tree.entry import FileWrite

pytestmark = pytest.mark.component


def extension() -> bytes:
    """A compiled extension module."""
    (file,) = Path(pydantic_core.__file__).parent.glob("_pydantic_core*.so")
    return file.read_bytes()[:100_000]


def bytecode(folder: Path) -> bytes:
    (folder / "m.py").write_text("x = 1\n")
    py_compile.compile(str(folder / "m.py"), cfile=str(folder / "m.bin"), doraise=True)
    return (folder / "m.bin").read_bytes()


def archive(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name in names:
            file.writestr(name, "")
    return buffer.getvalue()


def test_compiled_code_is_recognised_under_any_name(tmp_path: Path) -> None:
    assert compiled_kind(b"src/fast.cpython-311-x86_64-linux-gnu.so", extension()) == "ELF binary"
    assert compiled_kind(b"data/table.bin", extension()) == "ELF binary"
    assert compiled_kind(b"data/cache.dat", bytecode(tmp_path)) == "Python bytecode"
    assert compiled_kind(b"data/blob", archive("pkg/core.py", "pkg-1.0.dist-info/METADATA")) == "archive of code"
    windows = b"MZ" + bytes(58) + (64).to_bytes(4, "little") + b"PE\0\0"
    assert compiled_kind(b"tool", windows) == "Windows binary"


@pytest.mark.parametrize("name", ["a.so", "a.so.1.2", "A.PYD", "a.dll", "a.dylib", "a.o", "a.pyc", "a.whl", "a.class"])
def test_name_of_compiled_code_is_enough(name: str) -> None:
    assert compiled_kind(name.encode(), b"not really")


@pytest.mark.parametrize(
    "path, content",
    [
        ("src/core.py", b"import os\n"),
        ("docs/mz.txt", b"MZ is the start of a Windows program" + bytes(40)),
        ("data/lines.txt", b"ab\r\ncd\r\n"),
        ("data/photo.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
        ("data/sheet.xlsx", archive("xl/workbook.xml")),
        ("data/broken.zip", b"PK\x03\x04broken"),
        ("model.obj", b"v 0.0 1.0 0.0\n"),
        ("src/also.solution", b""),
    ],
)
def test_data_and_source_are_not_compiled_code(path: str, content: bytes) -> None:
    assert compiled_kind(path.encode(), content) == ""


def test_added_and_changed_compiled_files_are_notes() -> None:
    writes = [FileWrite(b"src/old.so", content=extension()), FileWrite(b"src/new.dat", content=extension())]
    found = inspect(InspectedPatch(patches=[], writes=writes, before={}, base=frozenset({b"src/old.so"})))
    assert [(finding.rule, finding.severity, finding.path, finding.detail) for finding in found] == [
        ("compiled_file", "note", "src/old.so", "changes compiled code: ELF binary"),
        ("compiled_file", "note", "src/new.dat", "adds compiled code: ELF binary"),
    ]
