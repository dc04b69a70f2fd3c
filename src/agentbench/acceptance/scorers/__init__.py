"""Scorers: deterministic programs that examine the workspace an agent left behind.

They run on the full working tree once every process of the agent has ended, and return PASS, FAIL or N/A and a score.
Their verdict is reported next to the gates and never changes them. This package owns what each scorer type examines;
the fields of a scorer are defined in `contract.scorers`.

    run_scorers(scorers, workspace)   engine.py    one result per scorer, in their order
    CHECKS                            engine.py    scorer type → function that decides it
"""
