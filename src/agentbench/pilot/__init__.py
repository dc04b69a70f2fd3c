"""Owns pre-registered, staged studies: plan, registration, stages, stopping rules, removals, report and verification.

`config` and `plan` say what will be done, `registration` freezes it, `execution` carries stages out, and `criteria`, `stopping`
and `removals` decide, so that `verification` can decide again. A decision must not depend on anything but the registration and
the recorded attempts.
"""
