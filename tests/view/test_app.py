"""Answers of the explorer say whether runs may be missing in them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agentbench.view.app import _query
from agentbench.view.explorer import Result

pytestmark = pytest.mark.component


class ReadsDuringTheQuery:
    """An index and a table of attempts: the last run is read after the query has seen the table."""

    def __init__(self) -> None:
        self._unread = 1

    def refresh(self) -> None: ...

    def altered(self) -> list[str]:
        return []

    def unsealed(self) -> list[str]:
        return []

    def pending(self) -> int:
        return self._unread

    def ask(self, _: str) -> Result:
        self._unread = 0
        return Result(("variant",), (), truncated=False, seconds=0.0)


def test_a_run_that_is_read_during_a_query_is_still_pending() -> None:
    index = ReadsDuringTheQuery()
    view: Any = SimpleNamespace(index=index, explorer=index)
    assert _query(view, {"sql": "SELECT variant FROM attempts"})["pending"] == 1
    assert _query(view, {"sql": "SELECT variant FROM attempts"})["pending"] == 0
