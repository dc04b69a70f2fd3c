"""Owns sequential comparisons: rules that decide between two methods before all planned attempts are made.

`rules` declares a rule and the schedule of its looks, `boundaries` computes group sequential boundaries,
`confidence_sequence` the anytime-valid bounds, `decide` applies a rule to paired outcomes, `simulate` estimates its power
and its expected number of attempts. Pure functions: no files, no clocks, seeded randomness.
"""
