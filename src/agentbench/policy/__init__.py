"""Policy: what ends a run and why, as pure functions of logged signals.

Owns termination categories with their mitigations, and budgets as folds over events: the same log gives the same stop, to
whoever recomputes it. Must not look at a clock, open anything or know how a stop is carried out.
"""
