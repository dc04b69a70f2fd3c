"""The user's name, also of a user without one."""

from __future__ import annotations

import os

import pytest

from agentbench.core.user_name import user_name

VARIABLES = ("LOGNAME", "USER", "LNAME", "USERNAME")


def test_user_has_the_name_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ada")
    assert user_name() == "ada"


def test_user_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs with an arbitrary user id."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    assert user_name() == "54321"
