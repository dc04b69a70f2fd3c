"""Acceptance checks: running one check on a candidate and deciding it."""
