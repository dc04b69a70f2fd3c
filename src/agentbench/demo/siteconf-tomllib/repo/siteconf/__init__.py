"""Layered TOML configuration for small sites."""

__version__ = "0.9.0"
