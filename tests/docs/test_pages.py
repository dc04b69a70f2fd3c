"""Every page can be found, says what it is for, and is short enough to read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
GUIDES = [page for page in PAGES if page.startswith("how-to/") or page in {"index.md", "quickstart.md"}]
MAX_WORDS = 2000
MAX_README_LINES = 120


def nav_pages(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for member in entry.values() if isinstance(entry, dict) else entry:
            yield from nav_pages(member)


def test_every_page_is_in_the_navigation() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    assert sorted(nav_pages(nav)) == PAGES


def test_index_lists_every_page() -> None:
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    assert sorted({"index.md", *re.findall(r"\]\(([\w/.-]+\.md)\)", text)}) == PAGES


@pytest.mark.parametrize("page", [page for page in PAGES if page != "explanation/architecture.md"])  # ARCHITECTURE.md
def test_page_states_its_purpose_first(page: str) -> None:
    title, blank, purpose = (DOCS / page).read_text(encoding="utf-8").split("\n")[:3]
    assert title.startswith("# ")
    assert blank == ""
    assert re.match(r"[A-Z`]", purpose), f"{page} starts with {purpose!r}"


@pytest.mark.parametrize("page", GUIDES)
def test_guide_is_short(page: str) -> None:
    words = (DOCS / page).read_text(encoding="utf-8").split()
    assert len(words) <= MAX_WORDS


def test_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MAX_README_LINES
    (output,) = re.findall(r"```console\n(.*?)```", "\n".join(lines), re.DOTALL)
    assert len(output.splitlines()) <= 16  # the command and 15 lines
