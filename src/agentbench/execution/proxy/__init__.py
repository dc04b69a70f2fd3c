"""The recording proxy: the only way to the network for an agent whose contract has `network_policy: always`.

Owns which destinations are allowed, how requests are forwarded, and what is recorded of them. Must not know agents, models or
verdicts.
"""
