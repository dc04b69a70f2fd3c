"""Owns rates, intervals, paired and sequential comparisons, power, survival, error rates and comparability.

Pure functions over trials. Must not read files or clocks, or execute anything. Resampling uses a fixed seed, so the
same records give the same numbers. Where a method does not apply (McNemar's test with repeats, an interval without
variance), the result is None and a note gives the reason.
"""
