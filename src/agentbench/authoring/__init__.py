"""Tasks from commits and from other benchmarks.

Owns the creation of task folders:

    commit/        one commit: read, split, verify in the sandbox, write the task folder
    harvest/       many commits of a history, and the flake screen of a suite
    environment/   detect, install and pin the dependencies that a commit's tests need
    formats/       exchange with SWE-bench and Harbor
    task_lock      one command at a time creates a task folder

Must not grade patches or manage sandboxes. Reaches git and the network through `workspace` alone.
"""
