"""The trace: typed events in a hash-chained log, and its verification.

Owns event types, the chain, blobs, redaction, verification of one log. One writer per log. Decides nothing about what
events mean, knows nothing of records or run directories.

    events.py, run_events.py   every event type with its payload: of an attempt, of a run
    chain.py                   one line of a log: its bytes and its hash
    log.py                     writing and reading a log
    verify.py                  the first thing wrong with a log
    blobs.py                   large outputs: kept by digest, shown as bounded excerpts
    redaction.py               secrets replaced by stable placeholders
    reference.py               the event reference of docs/trace.md, drawn from the models
"""
