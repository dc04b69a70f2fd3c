"""Programs that run inside the grading sandbox, mounted there read-only; the harness runs none of them.

They own what happens between the start of a test runner and the results on the side channel. They use the standard
library (and pytest, where it is pytest that runs), work on any Python from 3.8 on, and know nothing of the harness.
"""
