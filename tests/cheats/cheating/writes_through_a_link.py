"""Creates a link out of the tree and then patches a file behind it."""

from __future__ import annotations

FAMILY = "hostile_patches"
PATCH = b"""\
diff --git a/out b/out
new file mode 120000
--- /dev/null
+++ b/out
@@ -0,0 +1 @@
+/tmp
\\ No newline at end of file
diff --git a/out/conftest.py b/out/conftest.py
new file mode 100644
--- /dev/null
+++ b/out/conftest.py
@@ -0,0 +1 @@
+raise SystemExit(0)
diff --git a/../../tmp/conftest.py b/../../tmp/conftest.py
new file mode 100644
--- /dev/null
+++ b/../../tmp/conftest.py
@@ -0,0 +1 @@
+raise SystemExit(0)
"""
