"""What setup left in a container, as entries, as a digest, and as a workspace that the host can read again."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agentbench.core.errors import SandboxError
from agentbench.sandbox.docker.sandbox import DockerBox
from agentbench.sandbox.docker.tree import ChannelTree
from agentbench.sandbox.layout import ENV_DIR, HOME
from agentbench.tree.entry import Entry, Kind
from agentbench.tree.folder import FolderTree

_WHOLE_FILE = 1 << 33


@dataclass(frozen=True, slots=True)
class Frozen:
    entries: tuple[Entry, ...]
    """Of the workspace."""
    digest: str
    packages: tuple[str, ...]
    tree: ChannelTree


def frozen(box: DockerBox, workdir: str) -> Frozen:
    """Look at everything the user of a sandbox can write; times, byte code and caches decide nothing."""
    tree = box.tree_at(workdir)
    workspace = tuple(tree.entries())
    state = hashlib.sha256(_digest(workspace))
    env = tuple(box.tree_at(ENV_DIR).entries())
    state.update(_digest(env))
    if not workdir.startswith(f"{HOME}/"):
        state.update(_digest(box.tree_at(HOME).entries()))
    return Frozen(workspace, state.hexdigest(), _packages(env), tree)


def keep_workspace(result: Frozen, source: Path, target: Path) -> tuple[bytes, ...]:
    """Copy the workspace as setup left it to `target`; the files of R that setup changed or removed.

    What setup did not change is copied from R itself: only the rest goes over the channel.
    """
    with FolderTree.at(source) as original:
        before = {entry.path: entry for entry in original.entries()}
    top = os.fsencode(target)
    os.makedirs(top)
    for entry in result.entries:
        place = os.path.join(top, entry.path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if entry.kind is Kind.FILE and before.get(entry.path) == entry:
            shutil.copyfile(os.path.join(os.fsencode(source), entry.path), place, follow_symlinks=False)
        elif entry.kind is Kind.FILE:
            _fetch(result.tree, entry, place)
        elif entry.kind is Kind.SYMLINK:
            os.symlink(result.tree.read(entry.path, max_bytes=_WHOLE_FILE), place)
        if entry.kind is Kind.FILE:
            os.chmod(place, 0o755 if entry.executable else 0o644)
    after = {entry.path: entry for entry in result.entries}
    return tuple(sorted(path for path, entry in before.items() if after.get(path) != entry))


def _fetch(tree: ChannelTree, entry: Entry, place: bytes) -> None:
    content = tree.read(entry.path, max_bytes=_WHOLE_FILE)
    if hashlib.sha256(content).hexdigest() != entry.sha256:
        raise SandboxError(f"a file changed while it was read, with nothing running: {entry.path!r}")
    with open(place, "wb") as file:
        file.write(content)


def _digest(entries: Iterable[Entry]) -> bytes:
    state = hashlib.sha256()
    for entry in entries:
        if entry.path.endswith((b".pyc", b".pyo")) or b"/.cache/" in b"/" + entry.path:
            continue
        line = f"{entry.kind} {int(entry.executable)} {entry.sha256} {len(entry.path)} ".encode()
        state.update(line + entry.path + b"\n")
    return state.digest()


def _packages(env: Iterable[Entry]) -> tuple[str, ...]:
    """Installed distributions, as `name==version`."""
    found = set()
    for entry in env:
        folder, _, name = entry.path.rpartition(b"/")
        if name == b"METADATA" and folder.endswith(b".dist-info"):
            package, _, version = folder.rpartition(b"/")[2].removesuffix(b".dist-info").partition(b"-")
            found.add(f"{package.decode(errors='replace')}=={version.decode(errors='replace')}")
    return tuple(sorted(found))
