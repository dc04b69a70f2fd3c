"""Runs: plan attempts, make them, and record them.

Owns configuration and its origins, the plan, the lab (shared snapshots, prepared tasks and models), the attempt as a pipeline,
executors, interruption, resuming and replaying. Must not decide verdicts (`verdict` does, from the trace alone) and must not
start processes itself (`sandbox` does).
"""
