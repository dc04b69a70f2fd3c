"""Numbers fixed by the protocol. Other values are allowed and are recorded as deviations."""

from __future__ import annotations

PROTOCOL_SEED = 20260307
"""The planned base seed. Seeds spawned from it for further repeats are not deviations."""
SEED_DEVIATION = "base seed "
"""Prefix of the deviation that a manifest states for another base seed."""
