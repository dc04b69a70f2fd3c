"""Versions: those that follow PEP 440 in its order; all others are odd, and older than any of these."""

from packaging.version import LegacyVersion, parse


def is_odd(text):
    return isinstance(parse(text), LegacyVersion)


def sort_versions(texts):
    """Oldest first."""
    return sorted(texts, key=parse)


def newest(texts):
    """The newest, or None when there is none at all."""
    return max(texts, key=parse, default=None)
