"""Policy: what ends or restrains a run and why, as pure functions of logged signals.

Owns budgets, circuit breakers, policy monitors and backpressure as folds over events (`guard`), their thresholds and rules as
data, prices, and termination categories with their mitigations: the same log gives the same decisions, to whoever makes them
again (`recheck`). Must not look at a clock, open anything or know how a decision is carried out.
"""
