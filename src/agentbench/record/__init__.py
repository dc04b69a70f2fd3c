"""What is kept of a run: the record of each attempt, the manifest, the run directory, and its audit.

Owns the schema of records and manifests, where files lie, atomic and durable writing, locking, recovery after a crash, and
`verify_run`. Decides nothing about a verdict (that is `grading`) and never runs anything.

    schema.py     AttemptRecord: one line of attempts.jsonl
    manifest.py   Manifest: what was planned and what was found, written before the agent acts
    durable.py    atomic replacement, durable appending
    folder.py     one attempt's folder and the list of its evidence files
    naming.py     names of run directories and of their files
    recovery.py   what a crash left behind
    rundir.py     the run directory: begin, commit, records, resume
    audit.py      verify_run: the first thing that was changed, removed, reordered, cut or added
"""
