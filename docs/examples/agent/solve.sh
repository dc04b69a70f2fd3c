#!/bin/sh
# Stands in for your agent: read the issue, edit the code in the current folder, run the tests.
set -e
cat "$AB_BRIEFING"
python - <<'EDIT'
from pathlib import Path

module = Path("tinystats/__init__.py")
fixed = "    if len(ordered) % 2 == 0:\n        return (ordered[middle - 1] + ordered[middle]) / 2\n    return ordered[middle]\n"
module.write_text(module.read_text().replace("    return ordered[middle]\n", fixed))
EDIT
python -m pytest -q
