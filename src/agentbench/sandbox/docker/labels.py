"""How our containers and images are marked, so that only our own are ever touched."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

PREPARED = "agentbench/prepared"
BASE_NAME = "agentbench/base"
BUILT = "agentbench/dockerfile"
SEEDED = "agentbench/seeded"
REPOSITORIES = frozenset({PREPARED, BASE_NAME, BUILT, SEEDED})
"""Under which names we keep images. The runner image is its user's own."""

OWNER = "agentbench.owner"
"""The live folder of the backend that made a container."""
STATE = "agentbench.state"
"""The state folder that an owner or a stored environment belongs to."""
PLACE = "agentbench.place"
"""Where that folder is, on the machine of `HOST`: what belongs to a folder that is gone is nobody's."""
HOST = "agentbench.host"
KIND = "agentbench.kind"
SEEDS = "agentbench.seeds"
"""The size in MB of what lies aside in an image for a hard disk limit."""
SEEDS_OF = "agentbench.seeds-of"
"""The image whose seeds an image has: it goes with it."""
BASE_OF = "agentbench.base-of"
"""The image that one was made ready from: it goes with it."""
BASE = "agentbench.base"
"""What was found out about an image when it was made ready, as JSON in base64."""


def of_state(state: Path) -> dict[str, str]:
    """What everything of a state folder carries."""
    return {STATE: state_mark(state), PLACE: str(state.resolve()), HOST: host_mark()}


def host_mark() -> str:
    """An engine may serve several machines (or containers), and a path means something on one of them only."""
    try:
        machine = Path("/etc/machine-id").read_text()
    except OSError:
        machine = ""
    return hashlib.sha256(f"{os.uname().nodename} {machine}".encode()).hexdigest()[:16]


def state_mark(state: Path) -> str:
    return hashlib.sha256(str(state.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:16]
