"""Acceptance checks: run one check on a candidate and decide it."""
