"""Run directories: attempt records, manifests, evidence files, and their audit.

Owns the schemas of records and manifests, the layout of run directories, durable writing, locking, recovery after a crash,
and `verify_run`. Must not decide verdicts (that is `verdict`) or run anything.

    schema.py          AttemptRecord: one line of attempts.jsonl
    manifest.py        Manifest: the plan and the observed environment, written before the agent acts
    run_directory.py   the run directory: begin, commit, records, resume
    attempt_folder.py  one attempt's folder and its evidence files
    sealing.py         closing an attempt, and reading a closed one
    seals.py           comparing records with their seals while reports read them
    audit.py           verify_run: what was changed, removed, reordered, truncated or added
"""
