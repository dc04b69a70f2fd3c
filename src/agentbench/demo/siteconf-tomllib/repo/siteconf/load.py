"""Reading configuration files."""

from pathlib import Path

import tomli as toml

from siteconf.errors import ConfigError
from siteconf.merge import merge
from siteconf.variables import overrides


def load_file(path):
    """One layer from a file."""
    try:
        with open(path, "rb") as file:
            return toml.load(file)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except toml.TOMLDecodeError as error:
        raise ConfigError(f"{Path(path).name}: {error}") from error


def load(paths, environ=None):
    """All layers, the last on top, variables above all."""
    config = {}
    for path in paths:
        config = merge(config, load_file(path))
    return merge(config, overrides(environ or {}))
