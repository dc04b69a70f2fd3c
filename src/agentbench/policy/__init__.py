"""Rules that stop or restrain an attempt, as pure functions of its events.

Owns budgets, circuit breakers, policy monitors and backpressure, their thresholds and rules as data, prices, and termination
categories. The rule engine makes the decisions while an attempt runs; `recheck` makes them again from the log.
Must not read the clock, open files or know how a decision is carried out.
"""
