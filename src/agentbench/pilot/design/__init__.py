"""Owns what a pilot declares before anything runs: pilot.yaml, tasks, methods, plan, power analysis, cost projection."""
