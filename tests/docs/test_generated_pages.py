"""The generated reference pages match the code."""

from __future__ import annotations

import pytest

from scripts.generate_docs import DOCS, pages

pytestmark = pytest.mark.component

PAGES = pages()


@pytest.mark.parametrize("name", PAGES)
def test_generated_page_is_up_to_date(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    assert text == PAGES[name], "run: .venv/bin/python scripts/generate_docs.py"


@pytest.mark.req("U-01")
def test_command_reference_lists_every_command() -> None:
    page = PAGES["reference/cli.md"]
    for command in ("ab run", "ab run-task", "ab grade", "ab task from-commit", "ab report paired", "ab verify"):
        assert f"# {command}\n" in page
