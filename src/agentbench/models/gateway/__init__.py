"""The gateway: the one way from a program in a sandbox to a model.

Owns a small HTTP/1.1 server on a unix socket, one per attempt, its three API dialects, keep-alives in long waits, and what a
sandbox needs to reach it. What it hears is hostile; what it forwards goes to the metered_model and nowhere else. Must not hold a key,
know a budget or decide what a request costs.
"""
