"""Owns the decisions of a pilot and their logs: criteria, stopping rules, efficacy, removals.

Criteria, rules and claims are pure functions of the registration and the recorded attempts.
"""
