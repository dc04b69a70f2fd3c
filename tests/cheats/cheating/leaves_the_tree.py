"""Patches a file outside the workspace."""

from __future__ import annotations

FAMILY = "hostile_patches"
PATCH = b"--- /dev/null\n+++ b/../home/agent/.bashrc\n@@ -0,0 +1 @@\n+exit 0\n"
