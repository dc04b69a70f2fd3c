"""Putting layers on top of each other."""

from siteconf.errors import ConfigError


def merge(base, top):
    """`top` over `base`: tables are merged, everything else is replaced. Neither is changed."""
    result = dict(base)
    for key, value in top.items():
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merge(result[key], value)
        else:
            result[key] = value
    return result


def lookup(config, dotted):
    """The value at a dotted key such as `server.port`."""
    value = config
    for part in dotted.split("."):
        if not isinstance(value, dict) or part not in value:
            raise ConfigError(f"no such key: {dotted}")
        value = value[part]
    return value
