"""What is kept between runs: prepared environments, interpreters' layers, downloads, snapshots and mirrors of sources."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from agentbench.core.errors import SandboxError
from agentbench.sandbox.bwrap.spawn.main import remove_tree
from agentbench.sandbox.docker.engine import find_engine
from agentbench.sandbox.docker.unused_images import of_state, remove, remove_forsaken, remove_orphans
from agentbench.sandbox.environments.layers import LayerStore
from agentbench.sandbox.state import remove_leftovers

DEFAULT_BYTES = 20 << 30
"""Beyond this, environments unused for longest go when a new one is stored, or at `ab cache prune`."""

_SOURCES = {
    "snapshots/snapshots": "snapshot",
    "snapshots/mirrors": "mirror",
    "snapshots/archives": "archive",
    "snapshots/sources": "source",
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
    """Everything, least recently used first."""
    items = [Item("image", *item) for item in _images(state)]
    items += [
        Item(stored.kind, f"{stored.key}/{stored.build}", stored.label, stored.bytes, stored.used_at, stored.in_use)
        for store in _stores(state)
        for stored in store.stored()
    ]
    for store in _stores(state):
        items += [Item("failed", failed.key, failed.message, 0, failed.at, in_use=False) for failed in store.failures()]
    busy = _busy(state)
    for folder, kind in {**_SOURCES, "downloads": "downloads"}.items():
        paths = sorted((state / folder).glob("*"))
        items += [Item(kind, path.name, "", _size(path), path.lstat().st_mtime, busy) for path in paths]
    return sorted(items, key=lambda item: item.used_at)


def prune(state: Path, *, max_bytes: int, unused_sec: float | None = None, everything: bool = False) -> list[Item]:
    """Remove what is over the bound, unused for long, or everything; what is in use always stays.

    What is known of setups that failed is forgotten: they will be tried again. Snapshots and mirrors go only with `everything`; they and downloads go only while nothing runs on this state, since
    they carry no mark of who reads them.
    """
    remove_leftovers(state)
    removed: list[Item] = []
    busy = _busy(state)
    for store in _stores(state):
        for stored in store.prune(max_bytes=0 if everything else max_bytes, unused_sec=unused_sec):
            name = f"{stored.key}/{stored.build}"
            removed.append(Item(stored.kind, name, stored.label, stored.bytes, stored.used_at, in_use=False))
        for failed in store.failures():
            store.forget_failure(failed.kind, failed.key)
            removed.append(Item("failed", failed.key, failed.message, 0, failed.at, in_use=False))
    removed += _remove_images(state, everything=everything and not busy)
    if not busy:
        places = {**_SOURCES, "etc": "etc"} if everything else {}
        for folder, kind in {**places, "downloads": "downloads"}.items():
            for path in sorted((state / folder).glob("*")):
                age = time.time() - path.lstat().st_mtime
                if everything or (unused_sec is not None and age > unused_sec):
                    removed.append(Item(kind, path.name, "", _size(path), path.lstat().st_mtime, in_use=False))
                    remove_tree(str(path)) if path.is_dir() else path.unlink()
    return removed


def _stores(state: Path) -> list[LayerStore]:
    """Layers by the user who owns them, and what docker engines have committed, by engine."""
    return [LayerStore(path) for kind in ("u*", "docker-*") for path in sorted((state / "layers").glob(kind))]


def _images(state: Path) -> list[tuple[str, str, int, float, bool]]:
    """What an engine holds of this state folder beyond environments that were prepared."""
    with contextlib.suppress(SandboxError):
        if any((state / "layers").glob("docker-*")):
            found = [image for image in of_state(find_engine(), state) if image.kind != "prepared"]
            return [(image.names[0], image.kind, image.own_bytes, image.made_at, _busy(state)) for image in found]
    return []


def _remove_images(state: Path, *, everything: bool) -> list[Item]:
    """A committed image goes with its place in the store, and all of them with their state folder, whose ever it was.

    Where no engine answers, at the next `prune` that finds one.
    """
    stores = [LayerStore(path) for path in sorted((state / "layers").glob("docker-*"))]
    try:
        engine = find_engine()
        if stores:
            remove_orphans(engine, state, stores)
        gone = remove_forsaken(engine)
        if everything:
            gone += remove(engine, [image for image in of_state(engine, state) if image.kind != "prepared"])
    except SandboxError:
        return []
    return [Item("image", item.names[0], item.kind, item.own_bytes, item.made_at, in_use=False) for item in gone]


def _busy(state: Path) -> bool:
    live = state / "live"
    return live.is_dir() and any(live.iterdir())


def _size(path: Path) -> int:
    if not path.is_dir() or path.is_symlink():
        return path.lstat().st_size
    total = 0
    for top, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(top, name)).st_size
    return total
