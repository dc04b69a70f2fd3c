"""Configures git to run a program whenever someone on the host asks for changes."""

from __future__ import annotations

from tests.cheats.snippets import HOST_MARKER

FAMILY = "host_git"
SCRIPT = rf"""
cd /workspace
printf '#!/bin/sh\ntouch {HOST_MARKER}\n' > .git/hooks/pre-commit
for hook in post-index-change post-checkout pre-auto-gc fsmonitor-watchman reference-transaction; do
  cp .git/hooks/pre-commit .git/hooks/$hook
done
chmod +x .git/hooks/*
cp .git/hooks/pre-commit /tmp/run && chmod +x /tmp/run
git config core.fsmonitor "touch {HOST_MARKER}; false"
git config core.hooksPath .git/hooks
git config core.pager "touch {HOST_MARKER}"
git config core.editor "touch {HOST_MARKER}"
git config core.sshCommand "touch {HOST_MARKER}"
git config alias.status "!touch {HOST_MARKER}"
echo '# looked at' >> src/toy/core.py
"""
