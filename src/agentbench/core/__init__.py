"""The words every layer shares: errors, outcomes, commands, digests, ids.

Owns nothing that runs: no process, no socket, no file. Imports nothing of ours.
"""
