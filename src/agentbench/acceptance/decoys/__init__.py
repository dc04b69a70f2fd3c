"""DecoyPlan: required tests with a false expectation, which nobody who did the work can meet.

Code under test shares a process with its tests, so whoever is clever enough can make a test say that it passed. What it
has a hard time to know is which of two texts of a test is the true one: they look alike, no run is known to ask for nothing
but the truth, and the right answer is what tells them apart. Passing both is how forged reports, objects equal to everything
and values read from the test give themselves away, by whatever means it was done.
"""
