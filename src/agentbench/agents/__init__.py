"""Agents: what is under test, and the baselines it is held against.

Owns the `Agent` protocol, the briefing, the registry, and the agents that need no model: noop, reference, scripted, command.
An agent works through a `Session` alone; it sees no log, no oracle and no file of the task. Grades nothing.
"""
