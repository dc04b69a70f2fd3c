"""The /etc of a sandbox: one read-only folder, built once per interpreter, which also holds the command server.

One bound folder replaces a dozen bound files, since every mount slows each sandbox's start. It has one user and what
the dynamic linker, name lookup and certificates need, and nothing else of the host's /etc.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from agentbench.core.canonical import Json, digest, sha256_hex
from agentbench.core.errors import SandboxError
from agentbench.core.ids import new_ulid
from agentbench.sandbox.environments.interpreter import Interpreter
from agentbench.sandbox.layout import HOME, INNER_ID
from agentbench.sandbox.observation import filter_files
from agentbench.sandbox.server_bundle import bundle_digest, compile_server

SERVER_DIR = "/etc/agentbench"
_FILES = {
    "passwd": f"root:x:0:0:root:/:/usr/sbin/nologin\nagent:x:{INNER_ID}:{INNER_ID}:agent:{HOME}:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    "group": f"root:x:0:\nagent:x:{INNER_ID}:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost\n",
    "hostname": "sandbox\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
    "gitconfig": "[user]\n\tname = agent\n\temail = agent@sandbox.invalid\n[init]\n\tdefaultBranch = main\n",
    # Mount points for files of the setup phase.
    "resolv.conf": "",
    "pip.conf": "",
}
_COPIED = (
    *("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "timezone", "mime.types", "protocols"),
    *("services", "debian_version", "os-release", "ssl/openssl.cnf", "ssl/certs/ca-certificates.crt"),
    *("pki/tls/certs/ca-bundle.crt", "pki/tls/openssl.cnf", "magic", "bash.bashrc", "profile"),
)
SETUP_FOLDERS = ("ssl", "ca-certificates", "pki", "crypto-policies")
"""Folders of the host's /etc that the setup phase sees completely."""


def etc_folder(state: Path, interpreter: Interpreter) -> Path:
    """Return the folder for this interpreter and the current state of the host, and build it if necessary.

    Raises:
        SandboxError: it cannot be written.
    """
    filters = {name: sha256_hex(content) for name, content in filter_files().items()}
    key = digest([interpreter.identity, bundle_digest(), dict(_FILES), _host_file_stamps(), filters])
    folder = state / "etc" / key.removeprefix("sha256:")[:24]
    if not folder.is_dir():
        try:
            _build(folder, interpreter)
        except OSError as error:
            raise SandboxError(f"cannot write {folder}: {error}", remedy="set AB_STATE to a writable folder") from error
    return folder


def _host_file_stamps() -> list[Json]:
    """Return size and time of the copied host files, to notice changes."""
    stamps: list[Json] = []
    for name in _COPIED:
        try:
            info = (Path("/etc") / name).stat()
        except OSError:
            continue
        stamps.append([name, info.st_size, str(info.st_mtime_ns)])
    return stamps


def _build(folder: Path, interpreter: Interpreter) -> None:
    building = folder.with_name(f".{new_ulid().lower()}")
    for name, text in _FILES.items():
        _put(building / name, text.encode())
    for name in SETUP_FOLDERS:
        (building / name).mkdir(exist_ok=True)
    for name in _COPIED:
        _copy(Path("/etc") / name, building / name)
    server = building / SERVER_DIR.removeprefix("/etc/")
    compile_server(interpreter, server)
    for name, content in filter_files().items():
        _put(server / name, content)
    for path in [building, *building.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
    try:
        building.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
        shutil.rmtree(building)  # another process built the same folder first


def _copy(source: Path, target: Path) -> None:
    """Copy a file or a flat folder. Absolute links in a folder stay links; other links are resolved."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        for item in source.iterdir():
            if item.is_symlink() and os.readlink(item).startswith("/"):
                target.joinpath(item.name).symlink_to(os.readlink(item))
            elif item.is_file():
                _copy(item, target / item.name)
    elif source.is_file():
        try:
            _put(target, source.read_bytes())
        except PermissionError:
            return


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
