"""The store of frozen layers: found by key, built once under a lock, never written again, removed when nobody uses them.

    <root>/<kind>/<key>/lock          held while somebody builds
    <root>/<kind>/<key>/current       link to the newest build
    <root>/<kind>/<key>/failed.json   what is known of a setup that failed
    <root>/<kind>/<key>/<build>/      `tree/` and `meta.json`; `use` is locked (shared) by every backend that uses it,
                                      and its time is that of the last use

A new build takes the name of the old one by renaming a link; the old one goes when its last user has.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from agentbench.core.canonical import Json
from agentbench.core.errors import SandboxError
from agentbench.core.ids import new_ulid
from agentbench.sandbox.bwrap.spawn.main import remove_tree

KINDS = ("python", "prepared")
_FAILED = "failed.json"
_MEASURED = "measured"
"""Bytes and files of a layer's tree when it was stored."""


@dataclass(frozen=True, slots=True)
class Layer:
    kind: str
    key: str
    build: str
    folder: Path
    meta: Mapping[str, Json]

    @property
    def tree(self) -> Path:
        return self.folder / "tree"


@dataclass(frozen=True, slots=True)
class Stored:
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


@dataclass(frozen=True, slots=True)
class Failed:
    """A setup that is known to fail."""

    kind: str
    key: str
    message: str
    at: float


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
        """Only one builder of a key at a time, on the whole machine."""
        place = self._place(kind, key)
        try:
            place.mkdir(parents=True, exist_ok=True)
            fd = os.open(place / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SandboxError(f"the layer store {self._root} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            try:
                yield
            finally:
                _remove_unfinished(place)
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def idle(self, kind: str, key: str) -> Iterator[bool]:
        """Whether nobody builds a key, and nobody begins to while this is held."""
        try:
            fd = os.open(self._place(kind, key) / "lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            # Never built here, or no longer known.
            yield True
            return
        try:
            yield _taken(fd)
        finally:
            os.close(fd)

    def find(self, kind: str, key: str, *, needs: Iterable[str] = ()) -> Layer | None:
        """The newest whole build of a key, kept from removal for as long as this store is open.

        `needs`: what has to be noted of it, or it is not taken for whole.
        """
        place = self._place(kind, key)
        for _ in range(3):
            try:
                build = os.readlink(place / "current")
                meta = json.loads((place / build / "meta.json").read_text())
            except (OSError, ValueError):
                return None
            if not isinstance(meta, dict) or not set(needs) <= set(meta):
                return None
            layer = Layer(kind, key, build, place / build, meta)
            if self._use(layer.folder):
                if _whole(layer):
                    return layer
                os.close(self._uses.pop(layer.folder))
                return None
        return None

    def failure(self, kind: str, key: str) -> Mapping[str, Json] | None:
        """What was recorded of a setup of `key` that failed."""
        return _failure(self._place(kind, key))

    def record_failure(self, kind: str, key: str, record: Mapping[str, Json]) -> None:
        """The caller holds the `building` lock."""
        place = self._place(kind, key)
        with contextlib.suppress(OSError):  # not to know it later costs one more try, and no more
            (place / f".{_FAILED}").write_text(json.dumps(record))
            (place / f".{_FAILED}").rename(place / _FAILED)

    def forget_failure(self, kind: str, key: str) -> None:
        with contextlib.suppress(OSError):
            (self._place(kind, key) / _FAILED).unlink()

    def failures(self) -> list[Failed]:
        """Setups that failed, the oldest first."""
        found = []
        for kind in KINDS:
            for place in sorted((self._root / kind).glob("*")):
                record = _failure(place)
                with contextlib.suppress(OSError):  # forgotten meanwhile
                    if record is not None:
                        at = (place / _FAILED).stat().st_mtime
                        found.append(Failed(kind, place.name, str(record["message"]).partition("\n")[0], at))
        return sorted(found, key=lambda item: item.at)

    def new_build(self, kind: str, key: str) -> Path:
        """An empty folder for a build of `key`, not yet seen by anybody; the caller holds the `building` lock."""
        place = self._place(kind, key)
        _remove_unfinished(place)
        folder = place / f".building-{new_ulid().lower()}"
        (folder / "tree").mkdir(parents=True)
        return folder

    def commit(self, kind: str, key: str, building: Path, meta: Mapping[str, Json]) -> Layer:
        """Make a finished build the one that is found."""
        place = self._place(kind, key)
        build = building.name.removeprefix(".building-")
        (building / "use").touch()
        with (building / "meta.json").open("w") as file:
            json.dump({**meta, _MEASURED: [*measure(building / "tree")]}, file)
            file.flush()
            os.fsync(file.fileno())
            # The files themselves too, before the name: a power cut must not leave a layer that looks whole.
            _sync_file_system(file.fileno())
        building.rename(place / build)
        link = place / f".current-{build}"
        link.symlink_to(build)
        link.rename(place / "current")
        for old in _builds(place):
            if old.name != build:
                self._remove(old)
        layer = self.find(kind, key)
        if layer is None:
            raise SandboxError(f"the layer {kind}/{key} vanished while it was being stored")
        return layer

    def stored(self) -> list[Stored]:
        """Everything in the store, least recently used first."""
        found = []
        for kind in KINDS:
            for place in sorted((self._root / kind).glob("*")):
                current = _link(place / "current")
                found += [
                    self._describe(kind, place.name, path, current=path.name == current) for path in _builds(place)
                ]
        return sorted(found, key=lambda item: item.used_at)

    def remove(self, item: Stored) -> bool:
        """False when somebody uses it."""
        if not self._remove(item.folder):
            return False
        place = item.folder.parent
        if _link(place / "current") == item.build:
            with contextlib.suppress(OSError):
                (place / "current").unlink()
        return True

    def prune(self, *, max_bytes: int, unused_sec: float | None = None) -> list[Stored]:
        """Remove the least recently used until the rest fits; those in use stay. What was removed."""
        self._sweep()
        removed = []
        items = self.stored()
        total = sum(item.bytes for item in items)
        for item in items:
            too_old = unused_sec is not None and time.time() - item.used_at > unused_sec
            if (total > max_bytes or too_old or not item.current) and self.remove(item):
                total -= item.bytes
                removed.append(item)
        return removed

    def _sweep(self) -> None:
        """Builds whose builder was killed."""
        for kind in KINDS:
            for place in (self._root / kind).glob("*"):
                if any(place.glob(".building-*")):
                    with self.idle(kind, place.name) as idle:
                        if idle:
                            _remove_unfinished(place)

    def _place(self, kind: str, key: str) -> Path:
        return self._root / kind / key

    def _use(self, folder: Path) -> bool:
        """Hold a build against removal and note the time. False when it is going away."""
        if folder not in self._uses:
            try:
                fd = os.open(folder / "use", os.O_RDWR | os.O_CLOEXEC)
            except OSError:
                return False
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
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
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        else:
            hidden = folder.with_name(f".building-{folder.name}")
            folder.rename(hidden)
            remove_tree(str(hidden))
            return True
        finally:
            os.close(fd)

    def _describe(self, kind: str, key: str, folder: Path, *, current: bool) -> Stored:
        try:
            meta = json.loads((folder / "meta.json").read_text())
        except (OSError, ValueError):
            meta = {}
        try:
            used_at = (folder / "use").stat().st_mtime
        except OSError:
            used_at = 0.0
        return Stored(
            kind=kind,
            key=key,
            build=folder.name,
            folder=folder,
            bytes=int(meta.get("bytes", 0)),
            files=int(meta.get("files", 0)),
            used_at=used_at,
            label=str(meta.get("label", "")),
            current=current,
            in_use=_locked(folder / "use"),
        )


def _taken(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _failure(place: Path) -> Mapping[str, Json] | None:
    try:
        found = json.loads((place / _FAILED).read_text())
    except (OSError, ValueError):
        return None
    wanted = {"message", "remedy", "steps", "created", "conditions"}
    return found if isinstance(found, dict) and wanted <= set(found) else None


def _sync_file_system(fd: int) -> None:
    ctypes.CDLL(None).syncfs(fd)


def measure(tree: Path) -> tuple[int, int]:
    """Bytes and files. Linked files of the interpreter's layer count too: they go only when nobody links them."""
    total = files = 0
    folders = [os.fspath(tree)]
    while folders:
        # What setup locked against its own user is an ordinary harness's to pass over.
        with contextlib.suppress(PermissionError), os.scandir(folders.pop()) as items:
            for item in items:
                if item.is_dir(follow_symlinks=False):
                    folders.append(item.path)
                else:
                    total += item.stat(follow_symlinks=False).st_size
                    files += 1
    return total, files


def _whole(layer: Layer) -> bool:
    """Nobody writes to a layer, but disks fail and people tidy up: what is missing or cut short is built again."""
    try:
        return layer.tree.is_dir() and layer.meta.get(_MEASURED) in (None, [*measure(layer.tree)])
    except OSError:
        return False


def tree_bytes(tree: Path) -> int:
    """The size of a stored layer's tree, as it was noted; of another folder, as it is."""
    try:
        return int(json.loads((tree.parent / "meta.json").read_text())["bytes"])
    except (OSError, ValueError, KeyError):
        return sum(os.lstat(os.path.join(top, name)).st_size for top, _, names in os.walk(tree) for name in names)


def _builds(place: Path) -> list[Path]:
    """Finished builds: neither the link to the newest nor what is being built or removed."""
    return sorted(path for path in place.iterdir() if path.is_dir() and not path.is_symlink() and path.name[0] != ".")


def _remove_unfinished(place: Path) -> None:
    """The caller holds the `building` lock."""
    for stale in place.glob(".building-*"):
        remove_tree(str(stale))


def _link(path: Path) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


def _locked(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False
