"""Reads untrusted file trees safely from the host.

Owns entries, walking, reading and digests of trees. A tree that an agent wrote may contain symlinks that leave it, FIFOs,
devices, names that are not UTF-8 and millions of entries. Must not follow symlinks, block on special files, read more than its
limits, or run anything. Paths are relative bytes with `/` between parts.
"""
