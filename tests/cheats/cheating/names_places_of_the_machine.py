"""Patches files by the full path of the machine, makes a device, a submodule and a file that may do more than others."""

from __future__ import annotations

from tests.cheats.planted import OWNED

FAMILY = "hostile_patches"
PATCH = b"".join(
    b"diff --git a/%(name)s b/%(name)s\nnew file mode %(mode)s\n--- /dev/null\n+++ %(to)s\n@@ -0,0 +1 @@\n+exit 0\n"
    % {b"name": name, b"mode": mode, b"to": to}
    for name, mode, to in (
        (OWNED.encode(), b"100644", OWNED.encode()),
        (b"src/device", b"020666", b"b/src/device"),
        (b"src/module", b"160000", b"b/src/module"),
        (b"src/strong", b"104755", b"b/src/strong"),
    )
)
