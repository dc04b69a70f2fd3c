"""How the command server finds and kills the processes of a job."""

from __future__ import annotations

import pytest

from agentbench.sandbox.server import process_tree

pytestmark = pytest.mark.component


def test_processes_are_stopped_before_they_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise hundreds of busy processes leave the server little time to list and kill them."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(process_tree, "send_signal", lambda *signal: sent.append(signal))
    monkeypatch.setattr(process_tree, "processes", lambda: {7: (1, 7)} if sent == [(-1, 19)] else {})
    assert process_tree.stop_all() == {7: (1, 7)}


def test_flood_of_ended_children_does_not_delay_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posix.waitpid", lambda *_: (5, 0))
    assert process_tree.reap({}, 0.1)
    monkeypatch.setattr("posix.waitpid", lambda *_: (0, 0))
    assert not process_tree.reap({}, 0.1)
