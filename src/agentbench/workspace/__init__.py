"""Gets base repositories and works with patches.

Owns fetching a base repository (git, archive, package index, folder) into a cache, parsing and applying patches in
memory, and extracting the patch that an agent produced. Must not start sandboxes or use the agent's own `.git`. Git
runs only on repositories that this package created, never on a tree that an agent could write.
"""
