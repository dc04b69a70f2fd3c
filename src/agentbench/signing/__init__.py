"""Signed runs: keys, envelopes, statements about runs, trust files and the witness log.

Owns who signed a run, and whether it still is what was signed. It must not decide verdicts, and must not contain cryptography
of its own.
"""
