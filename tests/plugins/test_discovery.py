from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentbench.plugins.discovery import PluginError, installed, load
from agentbench.plugins.kinds import Kind
from tests.plugins.packages import Packages, packages

__all__ = ["packages"]
pytestmark = pytest.mark.component
WORKS = "def plugin(*arguments):\n    return arguments\n"


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_a_group_and_is_found(kind: Kind, packages: Packages) -> None:
    packages.install("acme", kind, "mine", WORKS, version="2.1")
    (plugin,) = installed(kind)
    assert (plugin.name, plugin.distribution, plugin.version) == ("mine", "acme", "2.1")
    assert "acme_module" not in sys.modules, "listing must not import"
    assert load(kind, "mine")(1) == (1,)


def test_groups_are_plural() -> None:
    assert Kind.SANDBOX.group == "agentbench.sandboxes"
    assert Kind.REPORT_SECTION.group == "agentbench.report_sections"


@pytest.mark.parametrize(
    "code,why",
    [
        ("import no_such_module_at_all", "ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("other = 1", "AttributeError"),
        ("1 / 0", "ZeroDivisionError"),
        ("def broken(:", "SyntaxError"),
        ("plugin = 3", "is not a function"),
    ],
)
def test_broken_plugin_names_its_package_and_the_cause(code: str, why: str, packages: Packages) -> None:
    packages.install("acme", Kind.SCORER, "mine", code)
    with pytest.raises(PluginError) as caught:
        load(Kind.SCORER, "mine")
    assert "scorer 'mine' of acme 1.0" in caught.value.message
    assert why in caught.value.message
    assert caught.value.remedy == "update or uninstall acme"


def test_name_of_a_built_in_is_refused(packages: Packages) -> None:
    packages.install("acme", Kind.SCORER, "command", WORKS)
    with pytest.raises(PluginError, match=r"'command' of acme 1\.0 has the name of a built-in scorer"):
        load(Kind.SCORER, "command", ["command"])


def test_name_of_two_packages_is_refused_with_both(packages: Packages) -> None:
    packages.install("acme", Kind.SCORER, "mine", WORKS)
    packages.install("other", Kind.SCORER, "mine", WORKS, version="3")
    with pytest.raises(PluginError, match=r"several packages have a scorer 'mine': acme 1\.0 and other 3"):
        load(Kind.SCORER, "mine")


def test_package_without_a_name_does_not_hide_others(packages: Packages, tmp_path: Path) -> None:
    packages.install("named", Kind.SCORER, "same", "plugin = print")
    rest = tmp_path / "site-packages/rest-1.0.dist-info"
    rest.mkdir()
    (rest / "entry_points.txt").write_text("[agentbench.scorers]\nsame = rest:plugin\n")
    assert [plugin.origin for plugin in installed(Kind.SCORER) if plugin.name == "same"] == [
        "an unknown package",
        "named 1.0",
    ]


def test_missing_plugin_is_an_input_error() -> None:
    with pytest.raises(PluginError, match="no scorer 'mine' is installed"):
        load(Kind.SCORER, "mine")
