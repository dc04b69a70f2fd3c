"""Runs: one attempt as a readable pipeline, and a suite of them.

Owns the order of things: configuration with its origins, the plan, the lab (snapshots, prepared environments, baselines),
the attempt, scheduling, interruption, resume. Decides nothing about verdicts (that is `grading`, from the trace alone) and
touches no process itself (that is `sandbox`).
"""
