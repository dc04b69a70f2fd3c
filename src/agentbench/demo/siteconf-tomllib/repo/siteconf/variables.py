"""Overrides from environment variables: SITE_SERVER__PORT=8080 sets server.port."""

import tomli

PREFIX = "SITE_"


def value_of(text):
    """The TOML value that `text` is, or the text itself when it is none."""
    try:
        return tomli.loads(f"value = {text}")["value"]
    except tomli.TOMLDecodeError:
        return text


def overrides(environ):
    """The layer that the variables of `environ` make."""
    layer = {}
    for name in sorted(environ):
        if not name.startswith(PREFIX):
            continue
        *tables, key = name[len(PREFIX) :].lower().split("__")
        place = layer
        for table in tables:
            place = place.setdefault(table, {})
        place[key] = value_of(environ[name])
    return layer
