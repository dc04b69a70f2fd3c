"""Prepared environments: setup runs once, its result is frozen and reused copy-on-write.

Owns preparing, the store of frozen layers, failed setups and the cache that `ab cache` shows. How a backend runs setup and
freezes the result is in `bwrap/environments.py` and `docker/environments.py`.
"""
