"""Statistics: rates with their denominators, intervals, paired comparisons, comparability.

Owns numbers. Pure functions over trials: no file, no clock, no randomness, nothing that runs. What cannot be said honestly
(McNemar with repeats, an interval without spread) is None with the reason in words, never a number that looks right.
"""
