"""Pytest checks: the pinned runner, what it reports, and the decision per test."""
