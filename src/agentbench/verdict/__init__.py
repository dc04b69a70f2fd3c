"""Grading: the verdict of an attempt as a pure function of its trace.

Owns the fold from events to facts, the four gates, run status, the primary reason, attribution, failure tags, the graded
score and the first line a person reads. `taxonomy.jsonl` and `rubric.json` are its published data.
Must not open files of a run, start anything, look at a clock or at the environment: the same events give the same verdict
anywhere, at any time, to anybody who recomputes it.
"""
