"""Statistics: rates with their denominators, intervals, paired comparisons, power, survival, error rates, comparability.

Owns numbers. Pure functions over trials: no file, no clock, nothing that runs; resampling is seeded, so the same records give the
same numbers. What cannot be said honestly (McNemar with repeats, an interval without spread) is None with the reason in
words, never a number that looks right.
"""
