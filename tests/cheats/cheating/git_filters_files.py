"""Configures git to run a program on every file that is added, compared or shown."""

from __future__ import annotations

from tests.cheats.snippets import HOST_MARKER

FAMILY = "host_git"
SCRIPT = rf"""
cd /workspace
printf '* filter=own diff=own merge=own\n' > .gitattributes
printf '* filter=own diff=own\n' > .git/info/attributes
git config filter.own.clean "touch {HOST_MARKER}; cat"
git config filter.own.smudge "touch {HOST_MARKER}; cat"
git config filter.own.process "touch {HOST_MARKER}"
git config filter.own.required true
git config diff.own.textconv "touch {HOST_MARKER}; cat"
git config diff.own.command "touch {HOST_MARKER}"
git config diff.external "touch {HOST_MARKER}"
git config merge.own.driver "touch {HOST_MARKER}"
echo '# looked at' >> src/toy/core.py
"""
