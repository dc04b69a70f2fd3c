"""Executable contracts: what a task is, how it is loaded, what identifies it.

Contract = (R repository snapshot, E environment, Setup, Oracle, Policy). Owns the schema, loading with all errors and
their lines, identities, suites, scenarios, lock files. Runs nothing and fetches nothing.

    load.load_task            a folder → LoadedTask, or every problem of it
    suite.load_suite          a suite by name; `demo` is bundled
    identity.identify         what a task means, as digests
    locking.make_lock         what was resolved, bound to those digests
    complexity.measure        proxies of a tree's complexity

From text to task: `document` (YAML → values with lines) → `conformity` (schema) → `consistency` and `placement` (what keys demand
of each other and of files) → `load`.
"""
