"""Agents: the programs under test, and the baselines they are compared with.

Owns the `Agent` protocol, the briefing, the registry, agents without a model (noop, reference, scripted, command), baselines
with a model (llm_v0, context_packer, subagents) and third-party command line agents (`cli`). An agent works only through a
`Session`: it sees no log, no checks and no file of the task. Must not grade anything.
"""
