"""Build the image that all harnesses use: the runner image with one file in /workspace and in a git repository."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import os
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

from bench.peers.work import QUESTION

NAME = "agentbench/bench-peers"
ROOT = Path(__file__).parent.parent.parent
TIMEOUT_SEC = 20
AUTHOR = {"NAME": "bench", "EMAIL": "bench@localhost", "DATE": "2026-01-01T00:00:00Z"}


def docker(*arguments: str, data: bytes | None = None) -> str:
    """
    Raises:
        RuntimeError: the command failed; the message has the end of its output.
    """
    done = subprocess.run(["docker", *arguments], input=data, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"docker {arguments[0]}: {done.stderr.decode(errors='replace').strip()[-500:]}")
    return done.stdout.decode().strip()


def runner_image() -> str:
    done = subprocess.run([str(ROOT / "scripts/runner-image")], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split()[0]


def build() -> str:
    """Return the image's name, building it once per runner image. Pulls nothing; no container has a network."""
    base = runner_image()
    name = f"{NAME}:{hashlib.sha256((base + QUESTION).encode()).hexdigest()[:12]}"
    if docker("image", "ls", "--quiet", name):
        return name
    container = docker("create", "--network", "none", base, "true")
    try:
        docker("cp", "-", f"{container}:/", data=files())
        # `commit` keeps the user, working directory and PATH of the runner image.
        docker("commit", container, name)
    finally:
        docker("rm", container)
    return name


def files() -> bytes:
    """Return a tar archive with /workspace for the ordinary user and /testbed, a git repository, for root."""
    stream = io.BytesIO()
    with (
        tempfile.TemporaryDirectory(prefix="peer-image-") as directory,
        tarfile.open(fileobj=stream, mode="w") as archive,
    ):
        for name, owner in (("workspace", 1000), ("testbed", 0)):
            folder = Path(directory) / name
            folder.mkdir(mode=0o755)
            (folder / "question.txt").write_text(QUESTION, encoding="utf-8")
            if owner == 0:
                commit(folder)
            archive.add(folder, arcname=name, filter=functools.partial(set_owner, owner))
    return stream.getvalue()


def set_owner(owner: int, entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = owner
    entry.uname = entry.gname = ""
    return entry


def commit(folder: Path) -> None:
    identity = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in AUTHOR.items()}
    for arguments in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "Base")):
        subprocess.run(["git", "-C", str(folder), *arguments], env={**os.environ, **identity}, check=True)


def python_version(image: str) -> str:
    program = "import json, sys; print(json.dumps(sys.version_info[:2]))"
    version = docker("run", "--rm", "--network", "none", image, "python3", "-c", program)
    return ".".join(map(str, json.loads(version)))


def clear(image: str) -> None:
    """Remove leftover containers of this image and wait until they are gone, so that they do not slow the next harness."""
    limit = time.monotonic() + TIMEOUT_SEC
    while (
        left := docker("ps", "--all", "--quiet", "--filter", f"ancestor={image}").split()
    ) and time.monotonic() < limit:
        with contextlib.suppress(RuntimeError):  # some are already being removed
            docker("rm", "--force", *left)
        time.sleep(0.2)
