"""Acceptance: decide about a patch in fresh sandboxes that its author never touched.

Owns the grading replica (base repository, patch, hidden files), the checks and how their results are read, the
inspection of the patch, and the validation of tasks. Emits events and decides single checks; gates, scores and reasons
are decided in `verdict/` from the events alone. Never runs anything outside a sandbox.

    grade(patch, context)     grade.py        run every step and check on a patch, one acceptance event per check
    baseline(context)         validation.py   run the checks on the base repository, cached per contract and environment
    validate(context, …)      validation.py   baseline must fail, reference must pass, results must be stable
    collect(context)          collect.py      find the required tests for the lock file
    run_scorers(…)            scorers/        apply the suite's mechanical rules to the workspace the agent left
    judge(model, case)        judge/          ask a model for its opinion; like scorers, it never decides a gate
    audit(context, …)         mutation/       measure how often the checks accept a wrong variant of the reference
"""
