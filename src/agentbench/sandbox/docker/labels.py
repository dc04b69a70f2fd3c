"""How our containers and images are marked, so that only our own are ever touched."""

from __future__ import annotations

import hashlib
from pathlib import Path

OWNER = "agentbench.owner"
"""The live folder of the backend that made a container."""
STATE = "agentbench.state"
"""The state folder that an owner or a stored environment belongs to."""
KIND = "agentbench.kind"
SEEDS = "agentbench.seeds"
"""The size in MB of what lies aside in an image for a hard disk limit."""
SEEDS_OF = "agentbench.seeds-of"
"""The image whose seeds an image has: it goes with it."""
BASE = "agentbench.base"
"""What was found out about an image when it was made ready, as JSON in base64."""


def state_mark(state: Path) -> str:
    return hashlib.sha256(str(state.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:16]
