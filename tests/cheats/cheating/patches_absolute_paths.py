"""Patches files by absolute paths, and creates a device, a submodule and a setuid file."""

from __future__ import annotations

from tests.cheats.snippets import HOST_MARKER

FAMILY = "hostile_patches"
PATCH = b"".join(
    b"diff --git a/%(name)s b/%(name)s\nnew file mode %(mode)s\n--- /dev/null\n+++ %(to)s\n@@ -0,0 +1 @@\n+exit 0\n"
    % {b"name": name, b"mode": mode, b"to": to}
    for name, mode, to in (
        (HOST_MARKER.encode(), b"100644", HOST_MARKER.encode()),
        (b"src/device", b"020666", b"b/src/device"),
        (b"src/module", b"160000", b"b/src/module"),
        (b"src/strong", b"104755", b"b/src/strong"),
    )
)
