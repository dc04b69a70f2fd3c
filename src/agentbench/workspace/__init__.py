"""R on the host, and what an agent made of it.

Owns: getting R (mirrors, archives, folders) into a cache, the text of Δ, and applying a patch to a tree in memory.
Must not touch: sandboxes, and the agent's own `.git`. Git runs here only on repositories this package made, and never on
a tree that an agent could write.
"""
