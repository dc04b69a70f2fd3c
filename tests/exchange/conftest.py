"""The Python with Inspect AI, Harbor and OpenTelemetry, which is not part of our own environment."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/exchange-peers"


@pytest.fixture(scope="session")
def peers_python() -> str:
    """Install the peers in CI, and use them elsewhere if they are installed."""
    cache = Path(os.environ.get("AB_PEERS_CACHE", Path.home() / ".cache/agentbench-peers"))
    if os.environ.get("CI") != "true" and not list(cache.glob("exchange-*/done")):
        pytest.skip("Inspect AI and Harbor are not installed: run scripts/exchange-peers")
    done = subprocess.run([SCRIPT], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()
