"""Pinning releases by version and digest."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agentbench.authoring.environment.pinner import Pinner
from agentbench.core.package_settings import PackageSettings
from agentbench.workspace.source.package_index import ProjectFiles, Release

pytestmark = [pytest.mark.req("C-17"), pytest.mark.component]


def pinner(*filenames: str) -> Pinner:
    files = tuple(Release("", name, f"{number:064d}") for number, name in enumerate(filenames))
    return Pinner(ProjectFiles(PackageSettings(single={"no-index": "true"}), {"dep": files}))


def pinned_files(filenames: Sequence[str]) -> list[str]:
    """Return the files whose digests are in the lock."""
    commands = pinner(*filenames).commands(["dep==1"], "3.11", editable=())
    return [name for number, name in enumerate(filenames) if commands and f"{number:064d}" in commands[0]]


def test_several_projects_are_pinned_together() -> None:
    commands = pinner("dep-1-py3-none-any.whl").commands(["dep==1"], "3.11", editable=("./one", "./a b"))
    assert commands is not None
    assert commands[-1] == "python -m pip install --no-deps -e ./one -e './a b'"


def test_lock_lists_every_file_that_this_interpreter_can_install() -> None:
    fitting = [
        "dep-1.tar.gz",
        "dep-1-py3-none-any.whl",
        "dep-1-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "dep-1-cp39-abi3-manylinux2014_aarch64.whl",
        "dep-1-cp311-cp311-musllinux_1_2_x86_64.whl",
    ]
    others = ["dep-2.tar.gz", "dep-1-cp310-cp310-manylinux2014_x86_64.whl", "dep-1-py3-none-win_amd64.whl"]
    assert pinned_files([*fitting, *others]) == fitting


@pytest.mark.parametrize("releases", [[], ["dep==2"], ["dep==1", "other @ a URL"]])
def test_releases_that_cannot_be_pinned_give_no_lock(releases: list[str]) -> None:
    assert pinner("dep-1.tar.gz").commands(releases, "3.11", editable=()) is None
