"""Tasks as files.

Owns the schema of `task.yaml`, loading, identities, suites, scenarios and lock files. Must not run or fetch anything.

    load.load_task            load a task folder, or report every problem in it
    suite.load_suite          load a suite by name; `demo` is bundled
    identity.identify         compute the digests that identify a task
    make_lock.make_lock       write resolved values into a lock, bound to those digests
    complexity.measure        measure size and imports of a source tree
    templates.new_task        write a new task or suite

Loading goes through `yaml_document` (YAML to values with line numbers), `schema_problems` (schema), `consistency`
(rules between keys and files) and `load`.
"""
