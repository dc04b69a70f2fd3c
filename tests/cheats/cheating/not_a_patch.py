"""Hands in something that is no patch at all, to end as our error."""

from __future__ import annotations

FAMILY = "infrastructure"
PATCH = b"here is my solution, please merge\n"
