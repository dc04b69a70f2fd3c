"""Has git run a program on every file that is added, compared or shown."""

from __future__ import annotations

from tests.cheats.planted import OWNED

FAMILY = "host_git"
SCRIPT = rf"""
cd /workspace
printf '* filter=own diff=own merge=own\n' > .gitattributes
printf '* filter=own diff=own\n' > .git/info/attributes
git config filter.own.clean "touch {OWNED}; cat"
git config filter.own.smudge "touch {OWNED}; cat"
git config filter.own.process "touch {OWNED}"
git config filter.own.required true
git config diff.own.textconv "touch {OWNED}; cat"
git config diff.own.command "touch {OWNED}"
git config diff.external "touch {OWNED}"
git config merge.own.driver "touch {OWNED}"
echo '# looked at' >> src/toy/core.py
"""
