"""Twins: required tests run again with a false expectation, which nobody who did the work can meet.

Code under test shares a process with its tests, so whoever is clever enough can make a test say that it passed. What it
has a hard time to know is which of two runs asks for the truth: a test whose expected value was altered looks much like the
other one, and the right answer is what tells them apart. Passing both is how forged reports, objects equal to everything and
values read from the test give themselves away, by whatever means it was done.
"""
