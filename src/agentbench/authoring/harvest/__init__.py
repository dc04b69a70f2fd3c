"""A suite from a repository's history: choose candidates, verify them, screen for flaky tests."""
