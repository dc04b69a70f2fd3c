from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agentbench.execution.environment_facts import EnvironmentFacts
from agentbench.execution.known_packages import cached_packages, known_packages
from agentbench.tree.entry import tree_digest
from agentbench.tree.memory import MemoryTree

pytestmark = [pytest.mark.req("G-06b"), pytest.mark.synthetic]


def known(
    files: dict[bytes, bytes], *, installed: dict[str, str] | None = None, setup: tuple[str, ...] = (), **options: Any
) -> tuple[str, ...] | None:
    environment = SimpleNamespace(network_policy=options.get("network", "none"))
    task = cast(
        "Any", SimpleNamespace(task=SimpleNamespace(environment=environment, setup=SimpleNamespace(commands=setup)))
    )
    steps = [SimpleNamespace(capture=True, stdout=options.get("freeze", b""))]
    prepared = cast("Any", SimpleNamespace(base_tree=MemoryTree(files), steps=steps))
    facts = EnvironmentFacts(packages={"pip": "24"} if installed is None else installed)
    if "cache" in options:
        return cached_packages(task, prepared, facts, tree_digest(prepared.base_tree.entries()), options["cache"])
    return known_packages(task, prepared, facts)


@pytest.mark.parametrize(
    "path, content, names",
    [
        ("requirements.txt", "Foo_Bar>=1\n", {"foo-bar"}),
        ("pyproject.toml", '[project]\nname = "own"\ndependencies = ["attrs>=2"]\n', {"attrs", "own"}),
        ("pyproject.toml", '[tool.poetry.dependencies]\npython = "3"\nrich = "1"\n', {"rich"}),
        ("setup.cfg", "[options]\ninstall_requires =\n  numpy>=1\n  six\n", {"numpy", "six"}),
        ("setup.py", "setup(name='own', install_requires=['click>=8', \"six\"])", {"own", "click", "six"}),
        ("uv.lock", '[[package]]\nname = "idna"\nversion = "3"\n', {"idna"}),
        ("Pipfile.lock", '{"default": {"idna": {}}, "develop": {"tox": {}}}', {"idna", "tox"}),
        (".venv/lib/python3/site-packages/rich_click-1.2.dist-info/METADATA", "", {"rich-click"}),
    ],
)
def test_names_in_the_base_repository_are_known(path: str, content: str, names: set[str]) -> None:
    result = known({path.encode(): content.encode()})
    assert result is not None
    assert set(result) == {"pip", *names}


def test_names_from_setup_and_captures_are_known() -> None:
    result = known(
        {}, setup=("pip install 'Django>=4' -r x.txt",), freeze=b"idna==3\nmine @ file:///x\nnot a package\n"
    )
    assert result == ("django", "idna", "mine", "pip")


def test_nothing_is_known_without_installed_packages() -> None:
    assert known({b"requirements.txt": b"idna\n"}, installed={}) is None


def test_nothing_is_known_if_the_agent_reaches_an_index() -> None:
    assert known({}, network="always") is None


def test_cache_is_used_only_for_the_same_inputs(tmp_path: Path) -> None:
    first = known({b"requirements.txt": b"idna\n"}, cache=tmp_path)
    assert first == known({b"requirements.txt": b"idna\n"}, cache=tmp_path) == ("idna", "pip")
    assert len(list(tmp_path.glob("*.json"))) == 1
    assert known({b"requirements.txt": b"six\n"}, cache=tmp_path) == ("pip", "six")
    assert known({b"requirements.txt": b"idna\n"}, cache=tmp_path, setup=("pip install attrs",)) == (
        "attrs",
        "idna",
        "pip",
    )
    assert known({b"requirements.txt": b"idna\n"}, cache=tmp_path, freeze=b"tox==4\n") == ("idna", "pip", "tox")
    assert known({b"requirements.txt": b"idna\n"}, cache=tmp_path, installed={"uv": "1"}) == ("idna", "uv")
    assert known({b"requirements.txt": b"idna\n"}, cache=tmp_path, network="always") is None
