"""Paths and ids that are the same inside every sandbox, whichever backend started it."""

from __future__ import annotations

HOME = "/home/agent"
ENV_DIR = "/opt/env"
"""The Python environment that setup installs into."""
DOWNLOADS = "/var/cache/pip"
INNER_ID = 1000
"""The user and group id of every command."""
