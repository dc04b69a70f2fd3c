"""Where what an engine holds is written down on this side: by engine, since an image is only where it was made."""

from __future__ import annotations

import hashlib
from pathlib import Path

from agentbench.sandbox.docker.engine import Engine
from agentbench.sandbox.environments.layers import LayerStore


def store_for(engine: Engine, state: Path) -> LayerStore:
    name = hashlib.sha256(engine.facts.id.encode()).hexdigest()[:12]
    return LayerStore(state / "layers" / f"docker-{name}")
