"""Submits something that is not a patch, to cause a harness error."""

from __future__ import annotations

FAMILY = "infrastructure"
PATCH = b"here is my solution, please merge\n"
