"""Lets a function of an installed package read the tests, called by code compiled from text."""

from __future__ import annotations

from tests.cheats.cheating.reads_tests_by_an_installed_function import READ
from tests.cheats.snippets import ANSWER_FROM_TESTS, CORE

FAMILY = "leaks"
CHANGES: dict[str, str | None] = {CORE: f"exec({ANSWER_FROM_TESTS + READ!r})\n"}
