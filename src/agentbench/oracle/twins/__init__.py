"""Twins: required tests run again with a false expectation, which nobody who did the work can meet.

Code under test shares a process with its tests, so whoever is clever enough can make a test say that it passed. What it
cannot do is to know which of two runs asks for the truth: a test whose expected value was altered looks like the other
one, and only the right answer tells them apart. Passing both is how forged reports, objects equal to everything and
values read from the test give themselves away, by whatever means it was done.
"""
