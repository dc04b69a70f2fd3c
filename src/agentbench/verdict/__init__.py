"""The verdict of an attempt, as a pure function of its trace.

Owns the facts collected from events, the four gates, run status, primary reason, attribution, failure tags, the graded score
and the headline. `taxonomy.jsonl` and `rubric.json` are its published data.
Must not open files of a run, start processes, or read the clock or the environment: the same events give the same verdict
on any machine at any time.
"""
