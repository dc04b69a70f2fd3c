"""Agents: what is under test, and the baselines it is held against.

Owns the `Agent` protocol, the briefing, the registry, the agents that need no model (noop, reference, scripted, command), the
baselines that have one (llm_v0, context_packer, subagents) and the programs of others (`cli`).
An agent works through a `Session` alone; it sees no log, no oracle and no file of the task. Grades nothing.
"""
