"""Dialects: the three ways to talk to a model over HTTP, and translations between them. Pure functions of JSON.

Owns how chat completions, responses and messages are read, written and turned into each other, and what an error looks like
in each. Must not send, store or count anything.
"""
