"""The peers, each in a virtual environment of its own outside of this repository, at versions that are written down.

The cache ($AB_PEERS_CACHE, else ~/.cache/agentbench-peers) is kept: the next run installs nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

INSTALL_SEC = 900
COMPOSE_SUITE = "trixie"
"""The Debian whose docker-compose is of version 2; it runs on older ones as well."""


@dataclass(frozen=True)
class Peer:
    """A harness, as it is installed and started here."""

    name: str
    runner: str
    requirements: tuple[str, ...]
    python: tuple[int, int] = (3, 11)
    arguments: tuple[str, ...] = ()
    packages_for_image: bool = False
    """Its own packages are needed inside a container, for the Python that is there."""

    @property
    def folder(self) -> str:
        return re.sub(r"[^A-Za-z0-9._-]+", "_", "-".join(self.requirements))


INSPECT = ("inspect-ai==0.3.285",)
PEERS = (
    Peer("Inspect AI", "run_inspect", INSPECT),
    Peer("Harbor", "run_harbor", ("harbor==0.24.0",), python=(3, 12)),
    Peer("SWE-bench", "run_swebench", ("swebench==5.0.2",)),
    Peer("mini-swe-agent", "run_mini", ("mini-swe-agent==2.4.6",)),
    # aiohttp: it imports it and does not ask for it.
    Peer("SWE-ReX", "run_swerex", ("swe-rex==1.4.0", "aiohttp==3.14.5"), packages_for_image=True),
    Peer("Inspect AI, no isolation", "run_inspect", INSPECT, arguments=("local",)),
)


class NotInstalledError(Exception):
    """A peer cannot be had here; the message says why."""


def cache() -> Path:
    named = os.environ.get("AB_PEERS_CACHE")
    folder = (
        Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "agentbench-peers"
    )
    folder.mkdir(parents=True, exist_ok=True)
    return folder.absolute()


def pythons() -> list[str]:
    """Interpreters to try, the wanted one first."""
    named = [os.environ[name] for name in ("AB_PEERS_PYTHON",) if os.environ.get(name)]
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    managed = sorted(map(str, root.glob("3.1[1-9]*/bin/python3")))
    return [*named, "python3.12", "python3.13", *managed, "python3", sys.executable]


def python_for(least: tuple[int, int]) -> str:
    """
    Raises:
        NotInstalledError: none of the interpreters here is new enough.
    """
    for candidate in pythons():
        asked = [candidate, "-c", "import sys, ensurepip; print(*sys.version_info[:2])"]
        try:
            done = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=True)
        except (OSError, subprocess.SubprocessError):
            continue
        major, minor = map(int, done.stdout.split())
        if (major, minor) >= least:
            return candidate
    msg = f"needs Python {least[0]}.{least[1]} or newer with ensurepip; name one: AB_PEERS_PYTHON=/path/to/python3"
    raise NotInstalledError(msg)


def installed(peer: Peer) -> Path:
    """The Python of a peer's environment, made when it is not there.

    Raises:
        NotInstalledError: with the last words of the installer.
    """
    folder = cache() / peer.folder
    python = folder / "bin" / "python"
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        print(f"installing {', '.join(peer.requirements)}", file=sys.stderr, flush=True)
        said([python_for(peer.python), "-m", "venv", str(folder)])
        said([str(python), "-m", "pip", "install", "--quiet", *peer.requirements])
        (folder / "done").touch()
    return python


def packages_for_image(peer: Peer, python: Path, version: str) -> Path:
    """A folder with a peer's packages for the Python of the image.

    Raises:
        NotInstalledError: with the last words of the installer.
    """
    folder = cache() / f"{peer.folder}-for-{version}"
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        fitting = ["--python-version", version, "--implementation", "cp", "--only-binary", ":all:"]
        said([str(python), "-m", "pip", "install", "--quiet", "--target", str(folder), *fitting, *peer.requirements])
        (folder / "done").touch()
    return folder


def with_compose() -> dict[str, str]:
    """Variables under which `docker compose` answers: none where it does already, else with Debian's plugin from the cache.

    Raises:
        NotInstalledError: it is not here and cannot be had.
    """
    if (
        shutil.which("docker")
        and subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0
    ):
        return {}
    config = cache() / "docker-config"
    plugin = config / "cli-plugins" / "docker-compose"
    if not plugin.exists():
        if not shutil.which("apt-get"):
            raise NotInstalledError("docker compose (version 2) is missing; install its plugin")
        print("fetching docker-compose (apt-get)", file=sys.stderr, flush=True)
        unpacked = compose_package()
        plugin.parent.mkdir(parents=True, exist_ok=True)
        plugin.symlink_to(unpacked / "usr/libexec/docker/cli-plugins/docker-compose")
    return {"DOCKER_CONFIG": str(config)}


def compose_package() -> Path:
    """Debian's package, unpacked and not installed: the machine stays as it is. apt checks what it fetches."""
    folder = cache() / "docker-compose"
    with tempfile.TemporaryDirectory(prefix="peer-apt-") as made:
        place = Path(made)
        place.chmod(0o755)
        for needed in ("lists/partial", "cache/archives/partial"):
            (place / needed).mkdir(parents=True)
        (place / "sources.list").write_text(f"deb {mirror()} {COMPOSE_SUITE} main\n", encoding="utf-8")
        options = {
            "Dir::Etc::SourceList": place / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::Lists": place / "lists",
            "Dir::Cache": place / "cache",
        }
        apt = ["apt-get", "-qq", *(part for name, value in options.items() for part in ("-o", f"{name}={value}"))]
        said([*apt, "update"])
        said([*apt, "download", "docker-compose"], cwd=place)
        said(["dpkg-deb", "-x", str(next(place.glob("*.deb"))), str(folder)])
    return folder


def mirror() -> str:
    """Where this machine gets Debian from."""
    if os.environ.get("AB_DEBIAN_MIRROR"):
        return os.environ["AB_DEBIAN_MIRROR"]
    sources = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    for path in sources:
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            found = re.search(r"^(?:URIs:|deb(?: \[[^]]*\])?) *(https?:\S*debian/?)(?:\s|$)", text, re.MULTILINE)
            if found:
                return found.group(1)
    raise NotInstalledError("docker compose (version 2) is missing, and apt names no Debian mirror to take it from")


def said(argv: Sequence[str], *, cwd: Path | None = None) -> None:
    """
    Raises:
        NotInstalledError: the command failed, with its last words.
    """
    try:
        done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=INSTALL_SEC, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotInstalledError(f"{Path(argv[0]).name}: {error}") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        raise NotInstalledError(" / ".join(lines[-3:]) or f"{Path(argv[0]).name}: exit {done.returncode}")


def compose_version(env: dict[str, str]) -> str | None:
    asked = ["docker", "compose", "version", "--short"]
    done = subprocess.run(asked, capture_output=True, text=True, env={**os.environ, **env}, check=False)
    return done.stdout.strip() or None if done.returncode == 0 else None
