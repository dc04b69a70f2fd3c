"""Prepared environments: setup runs once, its result is frozen and reused copy-on-write."""
