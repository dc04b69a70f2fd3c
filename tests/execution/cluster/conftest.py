"""One Ray cluster of two nodes for all workers of the session; one test uses it at a time."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests import session_state
from tests.execution.cluster.ray_nodes import ROOT, Cluster, require_cluster, start_cluster
from tests.execution.conftest import Ran

LOST_SEC = "10"


@dataclass(frozen=True)
class RayAb:
    """Runs `ab` as the driver, in the network of the cluster."""

    cluster: Cluster
    cwd: Path
    env: Mapping[str, str]

    def __call__(self, *arguments: str | Path, env: Mapping[str, str] | None = None, timeout: float = 280) -> Ran:
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
        return self(*arguments, *self.ray, env=env)

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


@pytest.fixture(scope="session")
def session_cluster(tmp_path_factory: pytest.TempPathFactory, link_interpreter: Callable[[Path], None]) -> Cluster:
    require_cluster()
    folder = session_state.session_folder(tmp_path_factory)
    # The process that started all workers, or this one: the cluster ends with it.
    owner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()

    def start() -> list[str | int]:
        cluster = start_cluster(owner, ("one", "two"), link_interpreter)
        return [str(cluster.folder), cluster.supervisor]

    where, supervisor = session_state.once(folder, "ray-cluster", start)
    return Cluster(Path(where), supervisor, prepare_state=link_interpreter)


@pytest.fixture
def cluster(session_cluster: Cluster) -> Iterator[Cluster]:
    """Use the cluster alone."""
    with (session_cluster.folder / "in-use").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        nodes = ("one", "two")
        processes = [pid for node in nodes for pid in session_cluster.sandboxed(node, "bwrap")]
        yield replace(session_cluster, earlier=frozenset([*session_cluster.owners(*nodes), *processes]))


def driver(cluster: Cluster, folder: Path, state: Path) -> RayAb:
    (folder / "home").mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "AB_STATE": str(state), "PYTHONPATH": str(ROOT)}
    return RayAb(cluster, folder, env)


@pytest.fixture
def ab(cluster: Cluster, tmp_path: Path, shared_state: Path) -> RayAb:
    return driver(cluster, tmp_path, shared_state)
