from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentbench.core.errors import InputError
from agentbench.plugins.discovery import PluginError
from agentbench.plugins.extensions import Extensions, Used
from agentbench.plugins.kinds import Kind
from tests.plugins.packages import Packages, packages

__all__ = ["packages"]
pytestmark = pytest.mark.component
WORKS = "def plugin():\n    return 'installed'\n"


@pytest.fixture
def scorers() -> Extensions[Callable[..., Any]]:
    return Extensions(Kind.SCORER, ["command"])


def test_registered_and_installed_objects_are_found(scorers: Extensions[Any], packages: Packages) -> None:
    packages.install("acme", Kind.SCORER, "theirs", WORKS)
    scorers.register("mine", lambda: "registered")
    assert scorers.names() == ("mine", "theirs")
    assert (scorers.get("mine")(), scorers.get("theirs")()) == ("registered", "installed")
    assert scorers.used("mine") == Used(Kind.SCORER, "mine", None, None)
    assert scorers.used("theirs") == Used(Kind.SCORER, "theirs", "acme", "1.0")
    assert scorers.used("command") is None
    assert scorers.registered() == ("mine",)


def test_plugin_cannot_take_a_built_in_name(scorers: Extensions[Any], packages: Packages) -> None:
    packages.install("acme", Kind.SCORER, "command", WORKS)
    assert scorers.names() == ()
    assert scorers.used("command") is None


def test_taken_names_cannot_be_registered(scorers: Extensions[Any], packages: Packages) -> None:
    packages.install("acme", Kind.SCORER, "theirs", WORKS)
    for name, message in {"command": "built-in scorer 'command'", "theirs": "acme 1.0 has a scorer 'theirs'"}.items():
        with pytest.raises(InputError, match=message):
            scorers.register(name, lambda: None)
    with pytest.raises(InputError, match="not a function"):
        scorers.register("mine", 3)


def test_installed_object_can_be_passed_as_itself(scorers: Extensions[Any], packages: Packages) -> None:
    packages.install("acme", Kind.SCORER, "theirs", WORKS)
    scorers.register("theirs", scorers.get("theirs"))
    assert scorers.registered() == ()


def test_registering_again_replaces_and_changes_the_fingerprint(scorers: Extensions[Any]) -> None:
    scorers.register("mine", lambda: 1)
    before = scorers.fingerprint("mine")
    scorers.register("mine", lambda: 2)
    assert scorers.get("mine")() == 2
    assert scorers.fingerprint("mine") != before


def test_fingerprint_of_a_plugin_is_stable_and_covers_its_code(scorers: Extensions[Any], packages: Packages) -> None:
    packages.install("acme", Kind.SCORER, "one", WORKS)
    packages.install("other", Kind.SCORER, "two", WORKS + "# changed\n")
    assert scorers.fingerprint("one") == scorers.fingerprint("one")
    assert scorers.fingerprint("one").rpartition(":")[2] != scorers.fingerprint("two").rpartition(":")[2]


def test_unexpected_exception_names_the_plugin_and_its_package(scorers: Extensions[Any], packages: Packages) -> None:
    packages.install("acme", Kind.SCORER, "theirs", WORKS)
    with pytest.raises(PluginError, match=r"scorer 'theirs' of acme 1\.0 raised KeyError"), scorers.calling("theirs"):
        raise KeyError("x")
    with pytest.raises(InputError, match="its own message"), scorers.calling("theirs"):
        raise InputError("its own message")
