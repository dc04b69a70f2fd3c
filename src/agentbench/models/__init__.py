"""Models: everything that is sent to a language model or received from one passes through here.

Owns the `Model` protocol for agents, the OpenAI-compatible client with its presets, keys, retries and faults, the ledger shared
by all workers, recording and replay, scripted models, and the gateway for programs in a sandbox. Keys stay on the host: no
event, error or sandbox ever holds one. Must not know tools, agents or verdicts.
"""
