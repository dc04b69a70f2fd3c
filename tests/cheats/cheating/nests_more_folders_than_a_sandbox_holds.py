"""Nests more folders than a sandbox has inodes, so that writing the patch into its replica fails late."""

from __future__ import annotations

FAMILY = "bombs"
PATCH = b"".join(
    b"diff --git a/%b b/%b\nnew file mode 100644\nindex 0000000..e69de29\n" % (path, path)
    for path in (b"%d/" % number + b"a/" * 1900 + b"file" for number in range(106))
)
