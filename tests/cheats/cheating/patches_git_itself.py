"""Patches a git hook in several spellings of its path."""

from __future__ import annotations

FAMILY = "hostile_patches"
PATCH = b"".join(
    b"diff --git a/" + name + b" b/" + name + b"\nnew file mode 100755\n--- /dev/null\n+++ b/" + name + b"\n"
    b"@@ -0,0 +1 @@\n+#!/bin/sh\n"
    for name in (b".git/hooks/pre-commit", b".GIT/hooks/post-checkout", b"src/.git/config")
)
