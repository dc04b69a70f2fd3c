"""Sandboxes as Docker containers.

Owns everything about engines, images and containers. The command server, its channel and the protocol are shared with the
bubblewrap backend. Outside this package only the registry and `ab cache` know that docker exists.
"""
