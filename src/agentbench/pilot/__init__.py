"""Pre-registered, staged studies: plan, registration, stages, stopping rules, removals, report and verification.

The order of dependencies: `config` and `plan` say what will be done, `registration` freezes it, `execution` carries stages out,
and `criteria`, `stopping` and `removals` decide from recorded attempts alone, so that `verification` can decide again.
"""
