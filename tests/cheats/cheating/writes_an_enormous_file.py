"""Replaces its code with an enormous sparse file."""

from __future__ import annotations

FAMILY = "diff_bombs"
SCRIPT = r"""
cd /workspace
truncate -s 40G src/toy/data.bin || truncate -s 60M src/toy/data.bin
yes 'value = 1' | head -c 20000000 >> src/toy/core.py
"""
