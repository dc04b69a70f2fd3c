"""Images of ours that nobody needs: whose place in the store is gone, or what they were made from, or their state folder.

Only images that carry our labels, of this machine, under names of ours are ever looked at: labels alone are inherited by what
somebody else builds on one.
"""

from __future__ import annotations

import contextlib
import json
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from agentbench.sandbox.docker import labels
from agentbench.sandbox.docker.engine import Engine
from agentbench.sandbox.environments.layers import LayerStore

_ORDER = {"seeded": 0, "prepared": 1, "base": 2, "dockerfile": 3}
"""What is made from another goes before it."""


@dataclass(frozen=True, slots=True)
class OurImage:
    id: str
    names: tuple[str, ...]
    """Those that we gave."""
    kind: str
    place: str
    """Its state folder."""
    source: str
    """The image it was made from; empty when that was not noted."""
    own_bytes: int
    """Of what it adds to the image it was made from, where that is there."""
    made_at: float


def our_images(engine: Engine, *filters: str) -> list[OurImage]:
    """Images with our labels, of this machine, as far as the engine tells."""
    ids = _listed(engine, f"label={labels.HOST}={labels.host_mark()}", *filters)
    if not ids:
        return []
    done = engine.call("image", "inspect", *ids)
    with contextlib.suppress(ValueError):
        said = json.loads(done.stdout.kept or b"[]")
        sizes = {str(item["Id"]): int(item.get("Size", 0)) for item in said}
        found = [_image(item, sizes, engine) for item in said]
        return sorted((image for image in found if image.names), key=lambda image: _ORDER.get(image.kind, 0))
    return []


def of_state(engine: Engine, state: Path) -> list[OurImage]:
    return our_images(engine, f"label={labels.STATE}={labels.state_mark(state)}")


def remove_orphans(engine: Engine, state: Path, stores: Iterable[LayerStore]) -> list[OurImage]:
    """Remove committed environments of a state folder that have no place in its store, with what was made of them.

    One that somebody has committed and not yet put into its place is no orphan: its builder holds the lock of its key.
    """
    held = tuple(stores)
    found = of_state(engine, state)
    kept = _kept(held)
    removed: list[OurImage] = []
    for image in found:
        if image.kind != "prepared" or image.id in kept:
            continue
        key = image.names[0].partition(":")[2].rpartition("-")[0]
        with contextlib.ExitStack() as locks:
            idle = [locks.enter_context(store.idle("prepared", key)) for store in held]
            # Only now nobody can be between the two: what the store held a moment ago says nothing.
            if all(idle) and image.id not in _kept(held):
                removed += remove(engine, [one for one in found if image.id in (one.id, one.source)])
    return removed


def _kept(stores: Iterable[LayerStore]) -> set[str]:
    kept = set()
    for store in stores:
        for stored in store.stored():
            with contextlib.suppress(OSError, ValueError):
                kept.add(str(json.loads((stored.folder / "meta.json").read_text()).get("image")))
    return kept


def remove_forsaken(engine: Engine) -> list[OurImage]:
    """Remove what belongs to state folders that are gone, and what was made ready from images that are."""
    found = our_images(engine)
    there: dict[str, bool] = {}
    return remove(
        engine,
        [
            image
            for image in found
            if _is_gone(image.place)
            or (image.kind in {"base", "seeded"} and image.source and not _exists(engine, image.source, there))
        ],
    )


def _is_gone(place: str) -> bool:
    """A folder that we may not look for, below another user's home, is there as far as we know."""
    try:
        return not stat.S_ISDIR(Path(place).stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def remove(engine: Engine, images: Iterable[OurImage]) -> list[OurImage]:
    """By our own names: what others were made from, or gave a name too, stays for as long as they want."""
    return [image for image in images if engine.call("image", "rm", "--force", *image.names).ok]


def _exists(engine: Engine, image: str, known: dict[str, bool]) -> bool:
    if image not in known:
        done = engine.call("image", "inspect", "--format", "{{len .RepoTags}}{{len .RepoDigests}}", image)
        # Removed while others are made from it, an image only loses its names. An engine that does not answer knows nothing.
        gone = b"no such image" in done.stderr.kept.lower()
        known[image] = done.stdout.kept.strip() != b"00" if done.ok else not gone
    return known[image]


def _image(said: Mapping[str, Any], sizes: dict[str, int], engine: Engine) -> OurImage:
    marks = (said.get("Config") or {}).get("Labels") or {}
    source = marks.get(labels.SEEDS_OF, marks.get(labels.BASE_OF, ""))
    if source and source not in sizes:
        told = engine.call("image", "inspect", "--format", "{{.Size}}", source).stdout.kept.strip()
        sizes[source] = int(told) if told.isdigit() else 0
    return OurImage(
        id=str(said["Id"]),
        names=tuple(name for name in said.get("RepoTags") or () if name.partition(":")[0] in labels.REPOSITORIES),
        kind=marks.get(labels.KIND, ""),
        place=marks.get(labels.PLACE, ""),
        source=source,
        own_bytes=max(0, int(said.get("Size", 0)) - sizes.get(source, 0)),
        made_at=_time(str(said.get("Created", ""))),
    )


def _time(text: str) -> float:
    """The engine's times have nine digits of a second and a Z."""
    try:
        return datetime.fromisoformat(f"{text[:19]}+00:00").timestamp()
    except ValueError:
        return 0.0


def _listed(engine: Engine, *filters: str) -> list[str]:
    options = [part for one in filters for part in ("--filter", one)]
    listed = engine.call("image", "ls", "--no-trunc", "--quiet", *options)
    return list(dict.fromkeys(listed.stdout.kept.decode().split())) if listed.ok else []
