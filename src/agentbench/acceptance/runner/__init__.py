"""Programs that run inside the grading sandbox, mounted there read-only. The harness itself runs none of them.

They cover everything between the start of a test run and its results on the result channel. They use only the standard
library (and pytest, where pytest is what runs), work on Python 3.8 and later, and know nothing of the harness.

Each file has its own globals and its own copy of the builtins, so that code under test that reaches one file has not
reached the others.
"""
