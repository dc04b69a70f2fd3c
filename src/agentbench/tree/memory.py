"""A tree in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from agentbench.tree.beneath import split
from agentbench.tree.entry import Entry, FileWrite, Kind, Tree
from agentbench.tree.limits import too_large


class MemoryTree:
    """Files by path: the content of a plain file, or a `FileWrite`."""

    def __init__(self, files: Mapping[bytes, bytes | FileWrite] | None = None) -> None:
        self._files: dict[bytes, FileWrite] = {}
        for path, value in (files or {}).items():
            self.put(value if isinstance(value, FileWrite) else FileWrite(path, content=value))

    @classmethod
    def copy(cls, tree: Tree, *, max_bytes: int) -> MemoryTree:
        """Copy another tree without its special files."""
        result = cls()
        for entry in tree.entries():
            if entry.kind is Kind.FILE:
                content = tree.read(entry.path, max_bytes=max_bytes)
                result.put(FileWrite(entry.path, content=content, executable=entry.executable))
            elif entry.kind is Kind.SYMLINK:
                result.put(FileWrite(entry.path, symlink=tree.read(entry.path, max_bytes=max_bytes)))
        return result

    def put(self, write: FileWrite) -> None:
        """Apply one write or deletion."""
        split(write.path)
        if write.data is None:
            self._files.pop(write.path, None)
        else:
            self._files[write.path] = write

    def apply(self, writes: Iterable[FileWrite]) -> None:
        for write in writes:
            self.put(write)

    def entries(self) -> Iterator[Entry]:
        for path in sorted(self._files):
            entry = self._files[path].entry()
            if entry is not None and path != b".git" and not path.startswith(b".git/"):
                yield entry

    def entry(self, path: bytes) -> Entry | None:
        """Return the entry at `path`.

        Raises:
            IsADirectoryError: the path is a folder.
            NotADirectoryError: a parent of the path is not a folder.
        """
        if path in self._files:
            return self._files[path].entry()
        parts = path.split(b"/")
        if any(b"/".join(parts[:count]) in self._files for count in range(1, len(parts))):
            raise NotADirectoryError(path)
        if any(other.startswith(path + b"/") for other in self._files):
            raise IsADirectoryError(path)
        return None

    def read(self, path: bytes, *, max_bytes: int) -> bytes:
        entry = self.entry(path)
        if entry is None:
            raise FileNotFoundError(path)
        if entry.size > max_bytes:
            raise too_large(f"a file of {entry.size} bytes (at most {max_bytes} allowed): {path!r}")
        return self._files[path].data or b""
