"""Puts a pipe, a socket and a folder where files are expected, to block readers."""

from __future__ import annotations

FAMILY = "special_files"
SCRIPT = r"""
cd /workspace
rm -rf tests/helpers.py src/toy/core.py README.md
mkfifo tests/helpers.py src/toy/core.py pipe
mkdir README.md
python -c 'import socket; socket.socket(socket.AF_UNIX).bind("here.sock")'
mknod device c 1 3 2>/dev/null || true
truncate -s 1G sparse.bin 2>/dev/null || true
touch -- '-rf' '--help' "$(printf 'new\nline')" "$(printf 'odd\377name')"
ln README.md hard 2>/dev/null; ln pyproject.toml hard
"""
