"""One Ray cluster of two nodes for all workers of the session; one test uses it at a time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests import session_state
from tests.execution.cluster.ray_nodes import ROOT, Cluster, require_cluster, start_cluster
from tests.execution.conftest import Ran
from tests.execution.preloaded import run_preloaded

LOST_SEC = "10"
STARTED = pytest.StashKey[Path]()
"""The file with the folder and the supervisor of the cluster that tests of this worker used."""


@dataclass(frozen=True)
class RayAb:
    """Runs `ab` on this machine, or as the driver, in the network of the cluster."""

    cluster: Cluster
    cwd: Path
    env: Mapping[str, str]

    def __call__(self, *arguments: str | Path, timeout: float = 280) -> Ran:
        env = {name: value for name, value in self.env.items() if name != "PYTHONPATH"}
        done = run_preloaded([*map(str, arguments)], cwd=self.cwd, env=env, timeout=timeout)
        return Ran(done.returncode, done.stdout, done.stderr)

    def inside(self, *arguments: str | Path, env: Mapping[str, str] | None = None, timeout: float = 280) -> Ran:
        done = subprocess.run(
            self.line(*arguments),
            cwd=self.cwd,
            env={**self.env, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def on_ray(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> Ran:
        return self.inside(*arguments, *self.ray, env=env)

    @property
    def ray(self) -> tuple[str, ...]:
        return ("--executor", "ray", "--ray-address", self.cluster.address)

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Start `ab` on the cluster and do not wait for it. Its output goes to files, because no test reads it meanwhile."""
        with (self.cwd / "stdout").open("w") as stdout, (self.cwd / "stderr").open("w") as stderr:
            return subprocess.Popen(
                ["env", "--default-signal=INT", *self.line(*arguments, *self.ray)],
                cwd=self.cwd,
                env=dict(self.env),
                stdout=stdout,
                stderr=stderr,
                text=True,
                process_group=0,
            )

    def line(self, *arguments: str | Path) -> list[str]:
        driver = ("-m", "tests.execution.cluster.driver", LOST_SEC)
        return self.cluster.inside(sys.executable, *driver, *map(str, arguments))


@pytest.fixture(scope="session")
def link_interpreter(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], None]:
    return lambda state: session_state.link_interpreter_layer(tmp_path_factory, state)


@pytest.fixture
def cluster(
    tmp_path_factory: pytest.TempPathFactory,
    link_interpreter: Callable[[Path], None],
    pytestconfig: pytest.Config,
) -> Iterator[Cluster]:
    """Use the cluster alone. The first test that needs it starts it."""
    require_cluster()
    started = session_state.session_folder(tmp_path_factory) / "ray-cluster.json"
    with started.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not started.exists():
            # The process that started all workers, or this one: the cluster ends with it.
            owner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
            new = start_cluster(owner, ("one", "two"), link_interpreter)
            started.write_text(json.dumps([str(new.folder), new.supervisor]), encoding="utf-8")
        pytestconfig.stash[STARTED] = started
        cluster = _running(started, link_interpreter)
        nodes = ("one", "two")
        processes = [pid for node in nodes for pid in cluster.sandboxed(node, "bwrap")]
        yield replace(cluster, earlier=frozenset([*cluster.owners(*nodes), *processes]))


def _running(started: Path, prepare_state: Callable[[Path], None]) -> Cluster:
    folder, supervisor = json.loads(started.read_text(encoding="utf-8"))
    return Cluster(Path(folder), supervisor, prepare_state=prepare_state)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """Stop the cluster after the last test here, unless another worker uses it: an idle cluster takes CPU time too."""
    yield
    here = Path(__file__).parent
    if STARTED not in item.config.stash or (nextitem is not None and here in nextitem.path.parents):
        return
    started = item.config.stash[STARTED]
    with started.with_suffix(".lock").open("w") as lock, contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if started.exists():
            _running(started, lambda _state: None).command("stop")
            started.unlink()


def driver(cluster: Cluster, folder: Path, state: Path) -> RayAb:
    (folder / "home").mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "AB_STATE": str(state), "PYTHONPATH": str(ROOT)}
    return RayAb(cluster, folder, env)


@pytest.fixture
def ab(cluster: Cluster, tmp_path: Path, shared_state: Path) -> RayAb:
    return driver(cluster, tmp_path, shared_state)
