"""The statistics themselves. All of them take any iterable of numbers and leave it as it was."""

from collections import Counter

from toystats.errors import EmptyData


def _values(data, name):
    values = list(data)
    if not values:
        raise EmptyData(name)
    return values


def mean(data):
    """Arithmetic mean."""
    values = _values(data, "mean")
    return sum(values) / len(values)


def median(data):
    """The middle value: half of the values are below it, half above."""
    values = sorted(_values(data, "median"))
    return values[len(values) // 2]


def mode(data):
    """The most frequent value; of several the one that came first."""
    values = _values(data, "mode")
    counts = Counter(values)
    best = max(counts.values())
    return next(value for value in values if counts[value] == best)


def spread(data):
    """Distance between the largest and the smallest value."""
    values = _values(data, "spread")
    return max(values) - min(values)


def quantile(data, fraction):
    """The value below which `fraction` of the data lies, with linear interpolation between neighbours."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction must be between 0 and 1, not {fraction}")
    values = sorted(_values(data, "quantile"))
    place = fraction * (len(values) - 1)
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)
