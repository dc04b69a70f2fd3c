"""Remove images of the harness that nothing needs: their layer, their source image or their state folder is gone.

Only images with the harness's labels, of this machine, under the harness's own names are considered. Labels alone are not
enough: an image that is built on one of them inherits its labels.
"""

from __future__ import annotations

import contextlib
import json
import stat
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from agentbench.core.dataclass import dataclass
from agentbench.sandbox.docker import labels
from agentbench.sandbox.docker.engine import Engine
from agentbench.sandbox.environments.layers import LayerStore

_REMOVAL_ORDER = {"seeded": 0, "prepared": 1, "base": 2, "dockerfile": 3}
"""An image is removed before the image it was made from."""


@dataclass(frozen=True, slots=True)
class OwnImage:
    id: str
    names: tuple[str, ...]
    """Only those that the harness gave."""
    kind: str
    state: str
    """The path of its state folder."""
    source: str
    """The image it was made from, or empty if that was not recorded."""
    own_bytes: int
    """Size without the image it was made from, if that still exists."""
    created_at: float


def own_images(engine: Engine, *filters: str) -> list[OwnImage]:
    """Return the harness's images of this machine, in the order of removal; none if the engine does not answer."""
    ids = _list_ids(engine, f"label={labels.HOST}={labels.host_hash()}", *filters)
    if not ids:
        return []
    done = engine.run("image", "inspect", *ids)
    with contextlib.suppress(ValueError):
        inspected = json.loads(done.stdout.kept or b"[]")
        sizes = {str(image["Id"]): int(image.get("Size", 0)) for image in inspected}
        images = [_own_image(image, sizes, engine) for image in inspected]
        return sorted((image for image in images if image.names), key=lambda image: _REMOVAL_ORDER.get(image.kind, 0))
    return []


def images_of(engine: Engine, state: Path) -> list[OwnImage]:
    return own_images(engine, f"label={labels.STATE}={labels.state_hash(state)}")


def remove_orphans(engine: Engine, state: Path, stores: Iterable[LayerStore]) -> list[OwnImage]:
    """Remove prepared environments of a state folder that its stores no longer have, and images made from them.

    An image that another process has committed but not stored yet is no orphan: that process holds the lock of its key.
    """
    stores = tuple(stores)
    images = images_of(engine, state)
    stored = _stored_images(stores)
    removed: list[OwnImage] = []
    for image in images:
        if image.kind != "prepared" or image.id in stored:
            continue
        key = image.names[0].partition(":")[2].rpartition("-")[0]
        with contextlib.ExitStack() as locks:
            idle = [locks.enter_context(store.idle("prepared", key)) for store in stores]
            # Read again under the lock: the image may have been stored since.
            if all(idle) and image.id not in _stored_images(stores):
                removed += remove(engine, [other for other in images if image.id in (other.id, other.source)])
    return removed


def remove_abandoned(engine: Engine) -> list[OwnImage]:
    """Remove images of state folders that no longer exist, and images made from images that no longer exist."""
    exists: dict[str, bool] = {}
    return remove(
        engine,
        [
            image
            for image in own_images(engine)
            if _is_gone(image.state)
            or (image.kind in {"base", "seeded"} and image.source and not _exists(engine, image.source, exists))
        ],
    )


def remove(engine: Engine, images: Iterable[OwnImage]) -> list[OwnImage]:
    """Remove images by the harness's names. An image that others use or named too stays."""
    return [image for image in images if engine.run("image", "rm", "--force", *image.names).ok]


def _stored_images(stores: Iterable[LayerStore]) -> set[str]:
    return {layer.image for store in stores for layer in store.stored()}


def _is_gone(folder: str) -> bool:
    """Return False if the harness may not look, as below another user's home."""
    try:
        return not stat.S_ISDIR(Path(folder).stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def _exists(engine: Engine, image: str, cache: dict[str, bool]) -> bool:
    if image not in cache:
        done = engine.run("image", "inspect", "--format", "{{len .RepoTags}}{{len .RepoDigests}}", image)
        # A removed image that others are made from only loses its names. If the engine does not answer, assume it exists.
        gone = b"no such image" in done.stderr.kept.lower()
        cache[image] = done.stdout.kept.strip() != b"00" if done.ok else not gone
    return cache[image]


def _own_image(image: Mapping[str, Any], sizes: dict[str, int], engine: Engine) -> OwnImage:
    values = (image.get("Config") or {}).get("Labels") or {}
    source = values.get(labels.SEEDS_OF, values.get(labels.BASE_OF, ""))
    if source and source not in sizes:
        size = engine.run("image", "inspect", "--format", "{{.Size}}", source).stdout.kept.strip()
        sizes[source] = int(size) if size.isdigit() else 0
    return OwnImage(
        id=str(image["Id"]),
        names=tuple(name for name in image.get("RepoTags") or () if name.partition(":")[0] in labels.REPOSITORIES),
        kind=values.get(labels.KIND, ""),
        state=values.get(labels.STATE_PATH, ""),
        source=source,
        own_bytes=max(0, int(image.get("Size", 0)) - sizes.get(source, 0)),
        created_at=_timestamp(str(image.get("Created", ""))),
    )


def _timestamp(text: str) -> float:
    """Parse the engine's time format, which has nanoseconds and a Z."""
    try:
        return datetime.fromisoformat(f"{text[:19]}+00:00").timestamp()
    except ValueError:
        return 0.0


def _list_ids(engine: Engine, *filters: str) -> list[str]:
    options = [part for text in filters for part in ("--filter", text)]
    done = engine.run("image", "ls", "--no-trunc", "--quiet", *options)
    return list(dict.fromkeys(done.stdout.kept.decode().split())) if done.ok else []
