"""The bubblewrap backend: sandboxes without a daemon, as root or as an ordinary user.

Owns the command line, mounts, spawner process and cgroups of these sandboxes. The spawner (`spawn/`) imports nothing
else of the harness.
"""
