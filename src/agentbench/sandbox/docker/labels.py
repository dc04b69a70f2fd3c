"""Labels and names of the harness's containers and images, so that it never touches any others."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

PREPARED = "agentbench/prepared"
BASE = "agentbench/base"
BUILT = "agentbench/dockerfile"
SEEDED = "agentbench/seeded"
REPOSITORIES = frozenset({PREPARED, BASE, BUILT, SEEDED})
"""Repositories of the images that the harness creates. The runner image belongs to the user."""

OWNER = "agentbench.owner"
"""The live folder of the backend that created a container."""
STATE = "agentbench.state"
"""A hash of the state folder."""
STATE_PATH = "agentbench.place"
"""The path of the state folder on the machine `HOST`. Images of a folder that no longer exists can be removed."""
HOST = "agentbench.host"
KIND = "agentbench.kind"
SEEDS = "agentbench.seeds"
"""The size of an image's seeds in MB: see `images.Images.seeded`."""
SEEDS_OF = "agentbench.seeds-of"
"""The image that a seeded image was made from, and with which it is removed."""
BASE_OF = "agentbench.base-of"
"""The image that a base image was made from, and with which it is removed."""
BASE_FACTS = "agentbench.base"
"""Facts detected in a base image, as JSON in base64."""


def state_labels(state: Path) -> dict[str, str]:
    """Return the labels of everything that belongs to a state folder."""
    return {STATE: state_hash(state), STATE_PATH: str(state.resolve()), HOST: host_hash()}


def host_hash() -> str:
    """Identify this machine: an engine may serve several machines (or containers), and a path is only valid on one."""
    try:
        machine = Path("/etc/machine-id").read_text()
    except OSError:
        machine = ""
    return hashlib.sha256(f"{os.uname().nodename} {machine}".encode()).hexdigest()[:16]


def state_hash(state: Path) -> str:
    return hashlib.sha256(str(state.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:16]
