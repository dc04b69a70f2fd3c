"""Leaves a process that adds a conftest again and again."""

from __future__ import annotations

FAMILY = "background"
SCRIPT = r"""
cd /workspace
(setsid sh -c 'trap "" TERM HUP; while :; do printf "import os\nos._exit(0)\n" > /workspace/conftest.py; sleep 0.01; done' >/dev/null 2>&1 &)
sleep 0.2
rm -f conftest.py
"""
