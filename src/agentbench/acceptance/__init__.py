"""Acceptance: the verdict about a patch, taken in fresh sandboxes that its author never touched.

Owns the grading replica (R + Δ, protected files restored, hidden files added), the checks and how their results are
read, the inspection of Δ, and the validation of tasks (baseline, reference, flakes). Emits events and decides single
checks; gates, scores and reasons are decided elsewhere, from the events alone. Never runs anything outside a sandbox.

    grade(patch, context)      acceptance.py   Δ → events of every canonical step, one acceptance event per check
    validate(context, …)       validation.py   does the task's own oracle hold: baseline fails, reference passes, no flakes
    baseline(context)          validation.py   the same for one attempt, cached per contract and environment
    collect(context)           collect.py      test ids of R, for the lock file
    run_scorers(…)           scorers/        the suite's mechanical rules, in the workspace the agent left
    judge(model, case)       judging/        a model's opinion; like scorers, beside the gates and never among them
    audit(context, …)          auditing/       how often the oracle accepts a wrong variant of the reference
"""
