"""The trace: typed events in a hash-chained log, and its verification.

Owns event types, the chain, blobs, redaction, verification. One writer per log. Decides nothing about what events mean.
"""
