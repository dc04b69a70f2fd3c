"""Short names for pages, made from their titles: small letters a to z, digits, and hyphens between words."""

import re

__all__ = ["slug"]

_OTHER = re.compile(r"[^a-z0-9]+")


def slug(title, *, limit=60):
    """Return the short name of a title. Words that do not fit into the limit are left out."""
    words = _OTHER.sub(" ", title.lower()).split()
    name = ""
    for word in words:
        longer = f"{name}-{word}" if name else word
        if len(longer) > limit:
            break
        name = longer
    return name
