"""Listing what setup installed."""

from __future__ import annotations

from pathlib import Path

from agentbench.sandbox.environments.inventory import packages


def test_packages_are_read_from_their_metadata(tmp_path: Path) -> None:
    (tmp_path / "lib/python3.11/site-packages/some_thing-1.2.dist-info").mkdir(parents=True)
    assert packages(tmp_path) == ["some_thing==1.2"]
