"""The harness as an ordinary user: the same isolation without root and cgroups; weaker limits are reported as such."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pydantic_core
import pytest
import rfc8785
import typing_extensions

import agentbench
from agentbench.process import run_host
from agentbench.sandbox.environments import interpreter as interpreters
from tests.sandbox import server_attacks

pytestmark = pytest.mark.component

_UID = 43_217


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that the other user can enter, with everything that it must import."""
    folder = Path(tempfile.mkdtemp(prefix="ab-user-"))
    folder.chmod(0o755)
    ignore = shutil.ignore_patterns("__pycache__", "demo")
    shutil.copytree(Path(agentbench.__file__).parent, folder / "lib/agentbench", ignore=ignore)
    for package in (rfc8785, pydantic_core):
        shutil.copytree(Path(str(package.__file__)).parent, folder / "lib" / package.__name__, ignore=ignore)
    shutil.copy(typing_extensions.__file__, folder / "lib")
    shutil.copy(Path(__file__).with_name("user_checks.py"), folder / "checks.py")
    shutil.copy(server_attacks.__file__, folder / "server_attacks.py")
    source = folder / "source"
    (source / "folder").mkdir(parents=True)
    (source / "folder/old").write_text("old\n")
    (source / "README").write_text("read\n")
    (folder / "home").mkdir()
    os.chown(folder / "home", _UID, _UID)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(params=["memory", "disk", "copies"])
def report(request: pytest.FixtureRequest, folder: Path) -> dict[str, object]:
    if os.geteuid() != 0:
        pytest.skip("needs root to switch users; as an ordinary user, the whole suite tests this")
    usable = [
        python for python in interpreters.installed() if not python.roots and python.version[:2] == sys.version_info[:2]
    ]
    if not usable:
        pytest.skip("no interpreter of this version that another user can run: the sandbox is tested as root only")
    drop = ["setpriv", "--reuid", str(_UID), "--regid", str(_UID), "--clear-groups"]
    state = folder / "home" / "state"
    argv = [*drop, usable[0].executable, "-I", "-c", "import sys, runpy; sys.path.insert(0, sys.argv[1]); "]
    argv[-1] += "del sys.argv[0:2]; runpy.run_path(sys.argv[0], run_name='__main__')"
    argv += [str(folder / "lib"), str(folder / "checks.py"), str(state), str(folder / "source"), str(request.param)]
    env = {"HOME": str(folder / "home"), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    done = run_host(argv, cwd="/", env=env, timeout_sec=900)
    assert done.exit_code == 0, done.stderr.kept.decode()
    printed: dict[str, object] = json.loads(done.stdout.kept)
    return {**printed, "layer": request.param}


@pytest.mark.req("R-06")
def test_isolation_and_limits_without_root(report: dict[str, object]) -> None:
    assert report["uid"] == _UID
    assert report["identity"] == "1000\nCapEff: 0000000000000000 NoNewPrivs: 1 Seccomp: 2"
    assert report["prepared"] == "made\nagain\n/home/agent/home-file"
    assert report["changed"] == ["folder/old"]
    assert report["refused"] == ""
    assert report["attacks"] == "tried"
    assert report["network"] == "['lo']"
    assert 5 < int(str(report["forks"])) < 40
    assert report["bomb"] in ([137, True], [1, True])
    assert report["after"] == "alive"
    assert report["neighbour"] == "Too many references: cannot splice, alive"
    assert report["programs"] == [None, [["/bin/true", "one"], ["unshare", "-U", "true"]], 1]
    assert report["tree"] == ["README", "folder/y"]
    assert report["usage"] == [True, True]
    assert report["live"] == []
    if report["layer"] != "disk":
        assert "No space left" in str(report["fill"])
        assert report["limits"] == ["absent", "monitored", "hard", "hard"]
    else:
        assert report["limits"] == ["absent", "monitored", "hard", "absent"]
