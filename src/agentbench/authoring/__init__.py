"""Tasks from what exists already: commits of a repository's history, and the files of other benchmarks.

Owns: choosing and splitting a commit, detecting its setup, proving it in the sandbox, writing the task folder, formats of
others. Must not touch: how a patch is graded (oracle) or how a sandbox works. Git and the network are reached through
workspace alone.
"""
