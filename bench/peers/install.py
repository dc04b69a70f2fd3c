"""Install the peers at fixed versions, each in its own virtual environment outside of this repository.

The cache ($AB_PEERS_CACHE, default ~/.cache/agentbench-peers) is kept; the next run installs nothing.
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
"""A Debian release with docker-compose 2; the package also runs on older releases."""


@dataclass(frozen=True)
class Peer:
    """The installation and start of one other harness."""

    name: str
    runner: str
    requirements: tuple[str, ...]
    python: tuple[int, int] = (3, 11)
    arguments: tuple[str, ...] = ()
    packages_for_image: bool = False
    """Needs its packages inside the container, for the Python of the image."""

    @property
    def folder(self) -> str:
        return re.sub(r"[^A-Za-z0-9._-]+", "_", "-".join(self.requirements))


INSPECT = ("inspect-ai==0.3.285",)
PEERS = (
    Peer("Inspect AI", "run_inspect", INSPECT),
    Peer("Harbor", "run_harbor", ("harbor==0.24.0",), python=(3, 12)),
    Peer("SWE-bench", "run_swebench", ("swebench==5.0.2",)),
    Peer("mini-swe-agent", "run_mini", ("mini-swe-agent==2.4.6",)),
    # SWE-ReX imports aiohttp without declaring it.
    Peer("SWE-ReX", "run_swerex", ("swe-rex==1.4.0", "aiohttp==3.14.5"), packages_for_image=True),
    Peer("Inspect AI, no isolation", "run_inspect", INSPECT, arguments=("local",)),
)


class NotInstalledError(Exception):
    """A peer cannot be installed here; the message gives the reason."""


def cache() -> Path:
    named = os.environ.get("AB_PEERS_CACHE")
    folder = (
        Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "agentbench-peers"
    )
    folder.mkdir(parents=True, exist_ok=True)
    return folder.absolute()


def pythons() -> list[str]:
    """Return the interpreters to try, $AB_PEERS_PYTHON first."""
    chosen = os.environ.get("AB_PEERS_PYTHON")
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    managed = sorted(map(str, root.glob("3.1[1-9]*/bin/python3")))
    return [*([chosen] if chosen else []), "python3.12", "python3.13", *managed, "python3", sys.executable]


def python_for(least: tuple[int, int]) -> str:
    """
    Raises:
        NotInstalledError: no interpreter here is new enough.
    """
    for candidate in pythons():
        argv = [candidate, "-c", "import sys, ensurepip; print(*sys.version_info[:2])"]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=True)
        except (OSError, subprocess.SubprocessError):
            continue
        major, minor = map(int, done.stdout.split())
        if (major, minor) >= least:
            return candidate
    msg = f"needs Python {least[0]}.{least[1]} or newer with ensurepip; set AB_PEERS_PYTHON=/path/to/python3"
    raise NotInstalledError(msg)


def ensure_installed(peer: Peer) -> Path:
    """Return the Python of a peer's environment, installing it if needed.

    Raises:
        NotInstalledError: the installer failed; the message has its last lines.
    """
    folder = cache() / peer.folder
    python = folder / "bin" / "python"
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        print(f"installing {', '.join(peer.requirements)}", file=sys.stderr, flush=True)
        run_checked([python_for(peer.python), "-m", "venv", str(folder)])
        run_checked([str(python), "-m", "pip", "install", "--quiet", *peer.requirements])
        (folder / "done").touch()
    return python


def packages_for_image(peer: Peer, python: Path, version: str) -> Path:
    """Return a folder with a peer's packages for the Python of the image.

    Raises:
        NotInstalledError: the installer failed; the message has its last lines.
    """
    folder = cache() / f"{peer.folder}-for-{version}"
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        platform_options = ["--python-version", version, "--implementation", "cp", "--only-binary", ":all:"]
        run_checked(
            [
                str(python),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--target",
                str(folder),
                *platform_options,
                *peer.requirements,
            ]
        )
        (folder / "done").touch()
    return folder


def compose_environment() -> dict[str, str]:
    """Return the variables that make `docker compose` work: none if it does already, else Debian's plugin from the cache.

    Raises:
        NotInstalledError: it is missing and cannot be downloaded.
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
            raise NotInstalledError("docker compose (version 2) is missing; install the docker-compose plugin")
        print("downloading docker-compose (apt-get)", file=sys.stderr, flush=True)
        unpacked = compose_package()
        plugin.parent.mkdir(parents=True, exist_ok=True)
        plugin.symlink_to(unpacked / "usr/libexec/docker/cli-plugins/docker-compose")
    return {"DOCKER_CONFIG": str(config)}


def compose_package() -> Path:
    """Download and unpack Debian's package without installing it. apt verifies the download."""
    folder = cache() / "docker-compose"
    with tempfile.TemporaryDirectory(prefix="peer-apt-") as directory:
        workdir = Path(directory)
        workdir.chmod(0o755)
        for needed in ("lists/partial", "cache/archives/partial"):
            (workdir / needed).mkdir(parents=True)
        (workdir / "sources.list").write_text(f"deb {mirror()} {COMPOSE_SUITE} main\n", encoding="utf-8")
        options = {
            "Dir::Etc::SourceList": workdir / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::Lists": workdir / "lists",
            "Dir::Cache": workdir / "cache",
        }
        apt = ["apt-get", "-qq", *(part for name, value in options.items() for part in ("-o", f"{name}={value}"))]
        run_checked([*apt, "update"])
        run_checked([*apt, "download", "docker-compose"], cwd=workdir)
        run_checked(["dpkg-deb", "-x", str(next(workdir.glob("*.deb"))), str(folder)])
    return folder


def mirror() -> str:
    """Return the Debian mirror that this machine uses."""
    if os.environ.get("AB_DEBIAN_MIRROR"):
        return os.environ["AB_DEBIAN_MIRROR"]
    sources = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    for path in sources:
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            match = re.search(r"^(?:URIs:|deb(?: \[[^]]*\])?) *(https?:\S*debian/?)(?:\s|$)", text, re.MULTILINE)
            if match:
                return match.group(1)
    raise NotInstalledError("docker compose (version 2) is missing, and apt has no Debian mirror configured")


def run_checked(argv: Sequence[str], *, cwd: Path | None = None) -> None:
    """
    Raises:
        NotInstalledError: the command failed; the message has its last lines.
    """
    try:
        done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=INSTALL_SEC, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotInstalledError(f"{Path(argv[0]).name}: {error}") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        raise NotInstalledError(" / ".join(lines[-3:]) or f"{Path(argv[0]).name}: exit {done.returncode}")


def compose_version(env: dict[str, str]) -> str | None:
    argv = ["docker", "compose", "version", "--short"]
    done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, **env}, check=False)
    return done.stdout.strip() or None if done.returncode == 0 else None
