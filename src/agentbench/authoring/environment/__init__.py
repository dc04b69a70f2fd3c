"""Detect how to set up a repository so that its tests run."""
