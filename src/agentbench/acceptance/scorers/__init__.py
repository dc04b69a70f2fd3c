"""Scorers: deterministic programs that look at the workspace an agent left, while it is still there.

They run when everything the agent started is dead, on the full working tree, and give PASS, FAIL or N/A and a score. Their
verdict stands beside the gates and never changes them. Owns what each type looks at; its fields stand in `contract.scorers`.

    run_scorers(scorers, workspace)   engine.py    one result per scorer, in their order
    CHECKS                            registry.py  type → the function that decides it
"""
