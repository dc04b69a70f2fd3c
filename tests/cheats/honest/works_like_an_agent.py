"""Edits with sed, runs the tests and leaves the caches they create."""

from __future__ import annotations

SCRIPT = r"""
cd /workspace
python -m pytest -q || true
sed -i 's|^    return ordered\[middle\]$|    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2|' src/toy/core.py
python -m pytest -q
mkdir -p build && echo x > build/x
"""
