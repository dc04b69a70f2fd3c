"""Normalised names of Python packages."""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=1024)  # files of one project are many and have the same name
def normal_name(name: str) -> str:
    """Return the normalised name of a Python package: `Foo.Bar` and `foo_bar` are `foo-bar`."""
    return re.sub(r"[-_.]+", "-", name).lower()
