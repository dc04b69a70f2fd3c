"""Small git repositories, a package index, and one lab per test process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from agentbench.execution.lab import Lab
from tests.authoring.package_index import PackageIndex
from tests.session_state import shared_state
from tests.workspace.reference_git import commit_all, git, repository

BEFORE: Mapping[str, str | bytes] = {
    "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-q"\n',
    "calc.py": "def half(value):\n    return value // 2\n",
    "tests/test_calc.py": "from calc import half\n\n\ndef test_even():\n    assert half(4) == 2\n",
}
FIX: Mapping[str, str | bytes] = {
    "calc.py": "def half(value):\n    return value / 2\n",
    "tests/test_calc.py": (
        "import pytest\nfrom calc import half\n\n\ndef test_even():\n    assert half(4) == 2\n\n\n"
        "@pytest.mark.parametrize('value', ['a b', '[x]'])\ndef test_odd(value):\n    assert half(3) == 1.5\n"
    ),
}


def put(folder: Path, files: Mapping[str, str | bytes], message: str) -> str:
    """Write files, commit them and return the commit id."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return commit_all(folder, message)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with one commit."""
    folder = repository(tmp_path / "calc")
    put(folder, BEFORE, "Begin")
    return folder


@pytest.fixture
def index(tmp_path: Path) -> PackageIndex:
    """An empty package index."""
    return PackageIndex(tmp_path / "index")


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(sandbox="bwrap", state=shared_state(tmp_path_factory, "authoring-state")) as lab:
        yield lab


__all__ = ["BEFORE", "FIX", "git", "index", "lab", "put", "repo"]
