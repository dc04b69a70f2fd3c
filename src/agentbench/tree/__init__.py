"""Untrusted file trees, read safely from the host.

A tree that an agent wrote may hold symlinks out of it, FIFOs, devices, names that are not UTF-8, a million entries.
Nothing here follows a symlink, blocks on a special file, or loads more than it was told to. Paths are bytes, relative,
with `/` between parts. Owns: entries, walking, reading, digests of trees. Runs nothing.
"""
