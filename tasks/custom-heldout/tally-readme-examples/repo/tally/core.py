"""Counters with names."""

from collections import Counter


class Tally:
    def __init__(self, counts=None):
        self._counts = Counter(counts or {})

    def add(self, name, times=1):
        """Count a name; the new count is returned."""
        self._counts[name] += times
        return self._counts[name]

    def count(self, name):
        return self._counts[name]

    def top(self, number=1):
        """The most frequent names, as a list."""
        return [name for name, _ in self._counts.most_common(number)]

    def share(self, name):
        """The share of a name between 0 and 1."""
        total = sum(self._counts.values())
        return self._counts[name] / total if total else 0.0

    def merged(self, other):
        """A new tally with the counts of both; neither is changed."""
        return Tally(self._counts + Counter(other))

    def __repr__(self):
        return f"Tally({dict(self._counts)!r})"
