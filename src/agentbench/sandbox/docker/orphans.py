"""Committed images whose place in the store of prepared environments is gone."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path

from agentbench.sandbox.docker import labels
from agentbench.sandbox.docker.engine import Engine
from agentbench.sandbox.layers import LayerStore


def remove_orphans(engine: Engine, state: Path, stores: Iterable[LayerStore]) -> list[str]:
    """Remove them, with the images made of them; their ids. Only of this state folder, by their labels."""
    kept = set()
    for store in stores:
        for stored in store.stored():
            with contextlib.suppress(OSError, ValueError):
                kept.add(json.loads((stored.folder / "meta.json").read_text()).get("image"))
    mark = f"label={labels.STATE}={labels.state_mark(state)}"
    orphans = sorted(set(_listed(engine, mark, f"label={labels.KIND}=prepared")) - kept)
    for orphan in orphans:
        engine.call("image", "rm", "--force", *_listed(engine, f"label={labels.SEEDS_OF}={orphan}"), orphan)
    return orphans


def _listed(engine: Engine, *filters: str) -> list[str]:
    options = [part for one in filters for part in ("--filter", one)]
    listed = engine.call("image", "ls", "--no-trunc", "--quiet", *options)
    return listed.stdout.kept.decode().split() if listed.ok else []
