"""Models: every word that goes to a language model or comes back from one passes through here.

Owns the `Model` protocol that agents build on, the OpenAI-compatible client with its presets, keys, retries and faults, the
ledger that all workers share, recording and replay of exchanges, scripted models, and the gateway that leads a program in a
sandbox to a model. Keys stay here, on the host: no event, no error and no sandbox ever holds one. Must not know tools,
agents or verdicts.
"""
