"""Recognises compiled code in a patch by content and by name. A diff does not show what it does, so it needs review."""

from __future__ import annotations

import io
import re

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x7fELF", "ELF binary"),
    (b"\xfe\xed\xfa\xce", "Mach-O binary"),
    (b"\xfe\xed\xfa\xcf", "Mach-O binary"),
    (b"\xce\xfa\xed\xfe", "Mach-O binary"),
    (b"\xcf\xfa\xed\xfe", "Mach-O binary"),
    (b"\xca\xfe\xba\xbe", "Java class or Mach-O binary"),
    (b"!<arch>\n", "archive of object files"),
    (b"BC\xc0\xde", "LLVM bitcode"),
    (b"\0asm", "WebAssembly module"),
)
_NAMES: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb"\.so(\.\d+)*$|\.dylib$|\.pyd$|\.dll$"), "shared library"),
    (re.compile(rb"\.py[co]$"), "Python bytecode"),
    (re.compile(rb"\.o$"), "object file"),
    (re.compile(rb"\.(whl|egg|jar)$"), "archive of code"),
    (re.compile(rb"\.(class|wasm|exe)$"), "compiled program"),
)
_IN_ARCHIVE = re.compile(r"\.(py|py[cod]|so|dll|dylib|class)$|\.dist-info/")
_MAX_MEMBERS = 10_000


def compiled_kind(path: bytes, content: bytes) -> str:
    """Return what kind of compiled code a file is; empty if it is none."""
    by_content = next((kind for magic, kind in _MAGIC if content.startswith(magic)), "")
    return (
        by_content
        or _windows_binary(content)
        or _bytecode(content)
        or _archive(content)
        or next((kind for pattern, kind in _NAMES if pattern.search(path.lower())), "")
    )


def _windows_binary(content: bytes) -> str:
    header = int.from_bytes(content[60:64], "little")
    return "Windows binary" if content.startswith(b"MZ") and content[header : header + 4] == b"PE\0\0" else ""


def _bytecode(content: bytes) -> str:
    """Recognise the header of Python 3 bytecode: a number from 3000 to 3999, a line end, flags."""
    number = int.from_bytes(content[:2], "little")
    return "Python bytecode" if 3000 <= number < 4000 and content[2:4] == b"\r\n" and b"\0" in content[4:16] else ""


def _archive(content: bytes) -> str:
    if not content.startswith(b"PK\x03\x04"):
        return ""
    import zipfile  # noqa: PLC0415 - few patches have an archive

    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()[:_MAX_MEMBERS]
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        return ""
    return "archive of code" if any(_IN_ARCHIVE.search(name.lower()) for name in names) else ""
