"""The trace: typed events in a hash-chained log.

Owns event types, the chain, blobs, redaction and the verification of one log. Each log has one writer. Must not interpret
events or know about records and run directories.

    events.py           every event type with its payload
    chain.py            one line of a log: its bytes and its hash
    log.py              writing and reading a log
    verify.py           verification of a log
    blobs.py            large outputs, stored by digest
    redaction.py        replaces secrets by stable placeholders
"""
