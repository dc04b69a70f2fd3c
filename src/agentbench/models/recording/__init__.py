"""Recorded model exchanges, and an upstream that replays them."""
