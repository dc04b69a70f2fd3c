from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from agentbench.core.errors import InputError
from agentbench.plugins.kinds import Kind
from agentbench.plugins.template import write_package
from tests.execution.conftest import shared_state

__all__ = ["shared_state"]


@pytest.mark.end_to_end
def test_template_of_every_kind_passes_its_own_tests(tmp_path: Path, shared_state: Path) -> None:
    for kind in Kind:
        write_package(kind, f"my_{kind}", tmp_path / kind)
    sources = os.pathsep.join(str(tmp_path / kind / "src") for kind in Kind)
    options = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "-c", os.devnull, "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": sources, "AB_STATE": str(shared_state)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert f"{len(Kind)} passed" in done.stdout


@pytest.mark.component
def test_package_declares_its_entry_point(tmp_path: Path) -> None:
    files = write_package(Kind.SANDBOX, "tiny", tmp_path / "new")
    assert files == ["pyproject.toml", "src/agentbench_tiny/__init__.py", "tests/test_tiny.py"]
    project = tomllib.loads((tmp_path / "new" / "pyproject.toml").read_text())["project"]
    assert project["entry-points"] == {"agentbench.sandboxes": {"tiny": "agentbench_tiny:tiny"}}
    assert not any("plugin_" in (tmp_path / "new" / file).read_text() for file in files)


@pytest.mark.component
def test_bad_names_and_used_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'my-scorer' cannot be the name"):
        write_package(Kind.SCORER, "my-scorer", tmp_path / "new")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="not an empty folder"):
        write_package(Kind.SCORER, "mine", tmp_path)
