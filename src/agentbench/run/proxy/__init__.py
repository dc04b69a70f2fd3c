"""The recording proxy: the only way to the network of an agent whose contract has `network_policy: always`.

Owns which destinations are allowed, how requests are read and passed on, and what is written down of them. Knows nothing of agents, models
or verdicts.
"""
