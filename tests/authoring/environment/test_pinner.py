"""Pinning releases by version and digest."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from agentbench.authoring.environment.pinner import CannotPin, Pinner
from agentbench.core.package_settings import PackageSettings
from agentbench.workspace.source.package_index import ProjectFiles, Release

pytestmark = [pytest.mark.req("C-17"), pytest.mark.component]


def pinner(*filenames: str) -> Pinner:
    files = tuple(Release("", name, f"{number:064d}") for number, name in enumerate(filenames))
    return Pinner(ProjectFiles(PackageSettings(single={"no-index": "true"}), {"dep": files}))


def pinned_files(filenames: Sequence[str]) -> list[str]:
    """Return the files whose digests are in the lock."""
    commands = pinner(*filenames).commands(["dep==1"], "3.11", editable=())
    return [name for number, name in enumerate(filenames) if f"{number:064d}" in commands[0]]


def test_several_projects_are_pinned_together() -> None:
    commands = pinner("dep-1-py3-none-any.whl").commands(["dep==1"], "3.11", editable=("./one", "./a b"))
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


@pytest.mark.parametrize(
    "releases, why",
    [
        ([], "setup installs no releases"),
        (["dep==2"], "no index has a file of dep 2 for this interpreter on Linux"),
        (["dep==1", "other @ a URL"], "`other @ a URL` has no version in an index"),
    ],
)
def test_reason_is_given_for_releases_that_cannot_be_pinned(releases: list[str], why: str) -> None:
    with pytest.raises(CannotPin, match=f"^{re.escape(why)}$"):
        pinner("dep-1.tar.gz").commands(releases, "3.11", editable=())


def test_source_distributions_of_a_lock_are_built_with_the_releases_of_the_day() -> None:
    limits = ("setuptools<=65", "dep<=0.9")
    constraints, *_ = commands = pinner("dep-1.tar.gz").commands(
        ["dep==1"], "3.11", editable=("./one",), limits=limits
    )[1:]
    # A constraint that contradicts the pin would make pip refuse the lock.
    assert "setuptools<=65" in constraints
    assert "dep<=0.9" not in constraints
    assert all(command.startswith("PIP_CONSTRAINT=") for command in commands[1:])
    wheels = pinner("dep-1-py3-none-any.whl").commands(["dep==1"], "3.11", editable=(), limits=limits)
    assert "PIP_CONSTRAINT" not in "".join(wheels)
