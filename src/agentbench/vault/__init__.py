"""The restricted store: encrypted originals of text that a run's evidence does not contain, and the log of every access.

Owns keys, encryption, rotation and destruction. It must not be needed to verify a run, must not return an original before the
access is logged, and must not contain cryptography of its own.
"""
