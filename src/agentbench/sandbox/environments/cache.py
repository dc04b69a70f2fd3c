"""The cache between runs: prepared environments, interpreter layers, docker images, downloads, snapshots and mirrors."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import SandboxError
from agentbench.sandbox.bwrap.spawn.main import remove_tree
from agentbench.sandbox.docker import unused_images
from agentbench.sandbox.docker.engine import find_engine
from agentbench.sandbox.docker.unused_images import OwnImage
from agentbench.sandbox.environments.layers import LayerStore, StoredFailure, StoredLayer, measure
from agentbench.sandbox.state import remove_leftovers

_SOURCES = {
    "snapshots/snapshots": "snapshot",
    "snapshots/mirrors": "mirror",
    "snapshots/archives": "archive",
    "snapshots/sources": "source",
    "snapshots/secrets": "secrets",
    "snapshots/packed": "packed",
    "agents": "agent",
}


@dataclass(frozen=True, slots=True)
class Item:
    kind: str
    name: str
    label: str
    bytes: int
    used_at: float
    in_use: bool


def contents(state: Path) -> list[Item]:
    """Return everything in the cache, least recently used first."""
    busy = _busy(state)
    items = [_image(image, in_use=busy) for image in _images(state)]
    for store in _stores(state):
        items += [_layer(layer, in_use=layer.in_use) for layer in store.stored()]
        items += [_failure(failure) for failure in store.failures()]
    for folder, kind in {**_SOURCES, "downloads": "downloads"}.items():
        items += [_file(kind, path, in_use=busy) for path in sorted((state / folder).glob("*"))]
    return sorted(items, key=lambda item: item.used_at)


def prune(state: Path, *, max_bytes: int, unused_sec: float | None = None, everything: bool = False) -> list[Item]:
    """Remove what exceeds `max_bytes`, what was not used for `unused_sec`, or everything, except what is in use.

    Recorded failures of setups are always forgotten, so those setups are tried again. Snapshots and mirrors are only removed
    with `everything`. They and downloads have no record of who reads them, so they are kept while any run uses this state folder.
    """
    remove_leftovers(state)
    removed: list[Item] = []
    busy = _busy(state)
    for store in _stores(state):
        layers = store.prune(max_bytes=0 if everything else max_bytes, unused_sec=unused_sec)
        removed += [_layer(layer, in_use=False) for layer in layers]
        for failure in store.failures():
            store.forget_failure(failure.kind, failure.key)
            removed.append(_failure(failure))
    removed += [_image(image, in_use=False) for image in _remove_images(state, everything=everything and not busy)]
    if not busy:
        folders = {**_SOURCES, "etc": "etc"} if everything else {}
        for folder, kind in {**folders, "downloads": "downloads"}.items():
            for path in sorted((state / folder).glob("*")):
                age = time.time() - path.lstat().st_mtime
                if everything or (unused_sec is not None and age > unused_sec):
                    removed.append(_file(kind, path, in_use=False))
                    remove_tree(str(path)) if path.is_dir() else path.unlink()
    return removed


def _stores(state: Path) -> list[LayerStore]:
    """Return the stores of both backends: one per user for bubblewrap, one per engine for docker."""
    return [LayerStore(path) for kind in ("u*", "docker-*") for path in sorted((state / "layers").glob(kind))]


def _images(state: Path) -> list[OwnImage]:
    """Return the images of this state folder, without prepared environments, which the stores list."""
    with contextlib.suppress(SandboxError):
        if any((state / "layers").glob("docker-*")):
            images = unused_images.images_of(find_engine(), state)
            return [image for image in images if image.kind != "prepared"]
    return []


def _remove_images(state: Path, *, everything: bool) -> list[OwnImage]:
    """Remove images that no store needs any more, and images of state folders that no longer exist.

    If no engine is running, the next `prune` that finds one removes them.
    """
    stores = [LayerStore(path) for path in sorted((state / "layers").glob("docker-*"))]
    try:
        engine = find_engine()
        if stores:
            unused_images.remove_orphans(engine, state, stores)
        removed = unused_images.remove_abandoned(engine)
        if everything:
            images = unused_images.images_of(engine, state)
            removed += unused_images.remove(engine, [image for image in images if image.kind != "prepared"])
    except SandboxError:
        return []
    return removed


def _layer(layer: StoredLayer, *, in_use: bool) -> Item:
    return Item(layer.kind, f"{layer.key}/{layer.build}", layer.label, layer.bytes, layer.used_at, in_use)


def _failure(failure: StoredFailure) -> Item:
    return Item("failed", failure.key, failure.message, 0, failure.recorded_at, in_use=False)


def _image(image: OwnImage, *, in_use: bool) -> Item:
    return Item("image", image.names[0], image.kind, image.own_bytes, image.created_at, in_use)


def _file(kind: str, path: Path, *, in_use: bool) -> Item:
    return Item(kind, path.name, "", _size(path), path.lstat().st_mtime, in_use)


def _busy(state: Path) -> bool:
    live = state / "live"
    return live.is_dir() and any(live.iterdir())


def _size(path: Path) -> int:
    if not path.is_dir() or path.is_symlink():
        return path.lstat().st_size
    return measure(path)[0]
