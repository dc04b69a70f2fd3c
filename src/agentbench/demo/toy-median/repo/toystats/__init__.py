"""Descriptive statistics for short lists of numbers."""

from toystats.core import mean, median, mode, quantile, spread
from toystats.errors import EmptyData

__all__ = ["EmptyData", "mean", "median", "mode", "quantile", "spread"]
__version__ = "0.3.1"
