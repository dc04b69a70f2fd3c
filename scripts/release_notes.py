"""Check that the changelog describes the version that is about to be released, and print its section.

python scripts/release_notes.py
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEADING = re.compile(r"^## \[(?P<version>[^\]]+)\](?P<rest>.*)$", re.MULTILINE)


def release_notes(changelog: str, version: str) -> str:
    """Return the section of a version, which must be the first one.

    Raises:
        ValueError: the section is missing, not first, undated or empty.
    """
    headings = list(HEADING.finditer(changelog))
    titles = [heading["version"] for heading in headings]
    if titles[:1] != [version]:
        first = f"the first section is [{titles[0]}]" if titles else "there are no sections"
        raise ValueError(f"CHANGELOG.md: {first}; rename or add it: ## [{version}] - YYYY-MM-DD")
    if not re.fullmatch(r" - \d{4}-\d\d-\d\d", headings[0]["rest"]):
        raise ValueError(f"CHANGELOG.md: [{version}] has no date; write it as: ## [{version}] - YYYY-MM-DD")
    end = headings[1].start() if len(headings) > 1 else len(changelog)
    section = changelog[headings[0].end() : end].strip()
    if not re.search(r"^- ", section, re.MULTILINE):
        raise ValueError(f"CHANGELOG.md: the section [{version}] lists no changes")
    return section


def main() -> None:
    source = (ROOT / "src" / "agentbench" / "__init__.py").read_text(encoding="utf-8")
    version = re.findall(r'^__version__ = "(.+)"$', source, re.MULTILINE)[0]
    try:
        print(release_notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version))
    except ValueError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
