"""Executable contracts: what a task is, how it is loaded, what identifies it.

Contract = (R repository snapshot, E environment, Setup, Oracle, Policy). Owns the schema, loading with all errors and
their lines, identities, suites, scenarios, lock files. Runs nothing and fetches nothing.
"""
