"""Errors of the package."""


class ConfigError(Exception):
    """A configuration that cannot be used; the message names the file or the key."""
