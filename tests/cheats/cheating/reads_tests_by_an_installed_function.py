"""Lets a function of an installed package read the tests."""

from __future__ import annotations

from tests.cheats.snippets import ANSWER_FROM_TESTS, CORE

FAMILY = "leaks"
READ = """

def _read():
    from pip._internal.network.session import PipSession
    from pip._internal.req.req_file import get_file_content

    return get_file_content("/workspace/tests/test_median_hidden.py", PipSession())[1]
"""
CHANGES: dict[str, str | None] = {CORE: ANSWER_FROM_TESTS + READ}
