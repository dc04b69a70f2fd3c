"""The store of frozen layers: found by key, built once under a lock, never written again, removed when unused.

    <root>/<kind>/<key>/lock          held while a build runs
    <root>/<kind>/<key>/current       link to the newest build
    <root>/<kind>/<key>/failed.json   record of a setup that failed
    <root>/<kind>/<key>/<build>/      `tree/`, `meta.json` and `use`: every backend that uses the build holds a shared lock on
                                      `use`, whose modification time is the time of the last use

A new build replaces the old one by renaming the link. The old one is removed once no backend uses it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from agentbench.core.atomic_file import write_atomic
from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import SandboxError
from agentbench.core.file_lock import file_lock, is_locked, try_lock
from agentbench.core.ids import new_ulid
from agentbench.sandbox.bwrap.spawn.main import remove_tree

KINDS = ("python", "prepared")
DEFAULT_BYTES = 20 << 30
"""Size of a store above which a new environment, or `ab cache prune`, removes the least recently used ones."""
_METADATA = "meta.json"
_FAILED = "failed.json"
_MEASURED = "measured"
"""Bytes and files of a layer's tree when it was stored."""


@dataclass(frozen=True, slots=True)
class Layer:
    kind: str
    key: str
    build: str
    folder: Path
    metadata: Mapping[str, Json]

    @property
    def tree(self) -> Path:
        return self.folder / "tree"


@dataclass(frozen=True, slots=True)
class StoredLayer:
    """A line of `ab cache ls`."""

    kind: str
    key: str
    build: str
    folder: Path
    bytes: int
    files: int
    used_at: float
    label: str
    current: bool
    in_use: bool
    image: str
    """The docker image of the environment, or empty."""


@dataclass(frozen=True, slots=True)
class StoredFailure:
    """The record of a setup that failed."""

    kind: str
    key: str
    message: str
    recorded_at: float


class LayerStore:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._uses: dict[Path, int] = {}

    def close(self) -> None:
        for fd in self._uses.values():
            os.close(fd)
        self._uses.clear()

    @contextlib.contextmanager
    def building(self, kind: str, key: str) -> Iterator[None]:
        """Wait until no other process or thread on this machine builds `key`.

        Raises:
            SandboxError: the store cannot be written.
        """
        key_folder = self._key_folder(kind, key)
        with contextlib.ExitStack() as stack:
            try:
                key_folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(file_lock(key_folder / "lock", 0o600))
            except OSError as error:
                raise SandboxError(f"cannot write to the layer store {self._root}: {error.strerror}") from error
            try:
                yield
            finally:
                _remove_unfinished(key_folder)

    @contextlib.contextmanager
    def idle(self, kind: str, key: str) -> Iterator[bool]:
        """Yield whether no build of `key` is running. If so, none can start within the `with` block."""
        try:
            fd = os.open(self._key_folder(kind, key) / "lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            # Never built here, or already removed.
            yield True
            return
        try:
            yield try_lock(fd)
        finally:
            os.close(fd)

    def find(self, kind: str, key: str, *, needs: Iterable[str] = ()) -> Layer | None:
        """Return the newest complete build of `key`, and protect it from removal until the store is closed.

        `needs`: metadata keys that a complete build has.
        """
        key_folder = self._key_folder(kind, key)
        for _ in range(3):
            try:
                build = os.readlink(key_folder / "current")
                metadata = json.loads((key_folder / build / _METADATA).read_text())
            except (OSError, ValueError):
                return None
            if not isinstance(metadata, dict) or not set(needs) <= set(metadata):
                return None
            layer = Layer(kind, key, build, key_folder / build, metadata)
            if self._use(layer.folder):
                if _is_complete(layer):
                    return layer
                os.close(self._uses.pop(layer.folder))
                return None
        return None

    def failure(self, kind: str, key: str) -> Mapping[str, Json] | None:
        """Return the record of a failed setup of `key`."""
        return _failure(self._key_folder(kind, key))

    def record_failure(self, kind: str, key: str, record: Mapping[str, Json]) -> None:
        """The caller holds the `building` lock."""
        with contextlib.suppress(OSError):  # a lost record only costs one more try
            write_atomic(self._key_folder(kind, key) / _FAILED, json.dumps(record).encode())

    def forget_failure(self, kind: str, key: str) -> None:
        with contextlib.suppress(OSError):
            (self._key_folder(kind, key) / _FAILED).unlink()

    def failures(self) -> list[StoredFailure]:
        """Return the setups that failed, the oldest first."""
        failures = []
        for kind, key_folder in self._key_folders():
            record = _failure(key_folder)
            with contextlib.suppress(OSError):  # another process may have forgotten it
                if record is not None:
                    recorded_at = (key_folder / _FAILED).stat().st_mtime
                    message = str(record["message"]).partition("\n")[0]
                    failures.append(StoredFailure(kind, key_folder.name, message, recorded_at))
        return sorted(failures, key=lambda failure: failure.recorded_at)

    def new_build(self, kind: str, key: str) -> Path:
        """Create a hidden folder with an empty `tree` for a build of `key`. The caller holds the `building` lock."""
        key_folder = self._key_folder(kind, key)
        _remove_unfinished(key_folder)
        folder = key_folder / f".building-{new_ulid().lower()}"
        (folder / "tree").mkdir(parents=True)
        return folder

    def commit(self, kind: str, key: str, building: Path, metadata: Mapping[str, Json]) -> Layer:
        """Make a finished build the one that `find` returns."""
        key_folder = self._key_folder(kind, key)
        build = building.name.removeprefix(".building-")
        (building / "use").touch()
        with (building / _METADATA).open("w") as file:
            json.dump({**metadata, _MEASURED: [*measure(building / "tree")]}, file)
            file.flush()
            os.fsync(file.fileno())
            # The tree's files too, before the rename: a power cut must not leave a layer that looks complete.
            ctypes.CDLL(None).syncfs(file.fileno())
        building.rename(key_folder / build)
        link = key_folder / f".current-{build}"
        link.symlink_to(build)
        link.rename(key_folder / "current")
        for old in _builds(key_folder):
            if old.name != build:
                self._remove(old)
        layer = self.find(kind, key)
        if layer is None:
            raise SandboxError(f"layer {kind}/{key} disappeared while it was being stored")
        return layer

    def stored(self) -> list[StoredLayer]:
        """Return everything in the store, least recently used first."""
        layers = [
            _describe(kind, build, current=build.name == _link(key_folder / "current"))
            for kind, key_folder in self._key_folders()
            for build in _builds(key_folder)
        ]
        return sorted(layers, key=lambda layer: layer.used_at)

    def remove(self, layer: StoredLayer) -> bool:
        """Remove a build. Return False if a backend uses it."""
        if not self._remove(layer.folder):
            return False
        key_folder = layer.folder.parent
        if _link(key_folder / "current") == layer.build:
            with contextlib.suppress(OSError):
                (key_folder / "current").unlink()
        return True

    def prune(self, *, max_bytes: int, unused_sec: float | None = None) -> list[StoredLayer]:
        """Remove the least recently used layers until the rest fits, except those in use. Return what was removed."""
        self._remove_abandoned_builds()
        removed = []
        layers = self.stored()
        total = sum(layer.bytes for layer in layers)
        for layer in layers:
            too_old = unused_sec is not None and time.time() - layer.used_at > unused_sec
            if (total > max_bytes or too_old or not layer.current) and self.remove(layer):
                total -= layer.bytes
                removed.append(layer)
        return removed

    def _remove_abandoned_builds(self) -> None:
        """Remove what builders that were killed left behind."""
        for kind, key_folder in self._key_folders():
            if any(key_folder.glob(".building-*")):
                with self.idle(kind, key_folder.name) as idle:
                    if idle:
                        _remove_unfinished(key_folder)

    def _key_folders(self) -> list[tuple[str, Path]]:
        return [(kind, folder) for kind in KINDS for folder in sorted((self._root / kind).glob("*"))]

    def _key_folder(self, kind: str, key: str) -> Path:
        return self._root / kind / key

    def _use(self, folder: Path) -> bool:
        """Protect a build from removal and update the time of its last use. Return False if it is being removed."""
        if folder not in self._uses:
            try:
                fd = os.open(folder / "use", os.O_RDWR | os.O_CLOEXEC)
            except OSError:
                return False
            if not try_lock(fd, shared=True):
                os.close(fd)
                return False
            self._uses[folder] = fd
        with contextlib.suppress(OSError):
            os.utime(self._uses[folder])
        return True

    def _remove(self, folder: Path) -> bool:
        if folder in self._uses:
            return False
        try:
            fd = os.open(folder / "use", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            if not try_lock(fd):
                return False
            hidden = folder.with_name(f".building-{folder.name}")
            folder.rename(hidden)
            remove_tree(str(hidden))
            return True
        finally:
            os.close(fd)


def measure(tree: Path) -> tuple[int, int]:
    """Return the bytes and the number of files of a tree.

    Files hard-linked from the interpreter's layer count too: their space is only freed with the last link.
    """
    total = files = 0
    folders = [os.fspath(tree)]
    while folders:
        folder = folders.pop()
        # A harness without root cannot read folders that setup closed to their own user, and files may vanish.
        with contextlib.suppress(OSError), _opened(folder) as fd, os.scandir(fd) as items:
            for item in items:
                if item.is_dir(follow_symlinks=False):
                    folders.append(f"{folder}/{item.name}")
                else:
                    total += item.stat(follow_symlinks=False).st_size
                    files += 1
    return total, files


@contextlib.contextmanager
def _opened(folder: str) -> Iterator[int]:
    """Open a folder: the kernel finds its entries from there faster than by their paths."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def tree_bytes(tree: Path) -> int:
    """Return the recorded size of a stored layer's tree, or the measured size of any other folder."""
    try:
        return int(json.loads((tree.parent / _METADATA).read_text())["bytes"])
    except (OSError, ValueError, KeyError):
        return measure(tree)[0]


def _describe(kind: str, folder: Path, *, current: bool) -> StoredLayer:
    try:
        metadata = json.loads((folder / _METADATA).read_text())
    except (OSError, ValueError):
        metadata = {}
    try:
        used_at = (folder / "use").stat().st_mtime
    except OSError:
        used_at = 0.0
    return StoredLayer(
        kind=kind,
        key=folder.parent.name,
        build=folder.name,
        folder=folder,
        bytes=int(metadata.get("bytes", 0)),
        files=int(metadata.get("files", 0)),
        used_at=used_at,
        label=str(metadata.get("label", "")),
        current=current,
        in_use=is_locked(folder / "use"),
        image=str(metadata.get("image", "")),
    )


def _failure(key_folder: Path) -> Mapping[str, Json] | None:
    try:
        record = json.loads((key_folder / _FAILED).read_text())
    except (OSError, ValueError):
        return None
    keys = {"message", "remedy", "steps", "created", "conditions"}
    return record if isinstance(record, dict) and keys <= set(record) else None


def _is_complete(layer: Layer) -> bool:
    """Compare a layer with its recorded size: a disk may fail and people delete files, and it is then built again."""
    return layer.tree.is_dir() and layer.metadata.get(_MEASURED) in (None, [*measure(layer.tree)])


def _builds(key_folder: Path) -> list[Path]:
    """Return the finished builds, without the `current` link and hidden folders."""
    return sorted(
        path for path in key_folder.iterdir() if path.is_dir() and not path.is_symlink() and path.name[0] != "."
    )


def _remove_unfinished(key_folder: Path) -> None:
    """The caller holds the `building` lock."""
    for folder in key_folder.glob(".building-*"):
        remove_tree(str(folder))


def _link(path: Path) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None
