"""Catalogues: the versions of each crate by its name."""

from cratebook.versions import newest
from cratebook.wants import name_of, satisfies


def pick(catalogue, want):
    """The newest version that will do, or None."""
    name = name_of(want)
    return newest([version for version in catalogue.get(name, ()) if satisfies(want, name, version)])
