"""The /etc of a sandbox: one read-only folder, made once per interpreter, with the command server in it.

A single bound folder instead of a dozen bound files, since every mount costs each sandbox's start. It names one user, has
what the dynamic linker, name lookup and certificates need, and nothing else of the host's.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from agentbench.core.canonical import Json, digest
from agentbench.core.errors import SandboxError
from agentbench.core.ids import new_ulid
from agentbench.sandbox.environments.interpreter import Interpreter
from agentbench.sandbox.layout import HOME, INNER_ID
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
    # Places where the setup phase gets its own files bound.
    "resolv.conf": "",
    "pip.conf": "",
}
_COPIED = (
    "alternatives",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "timezone",
    "mime.types",
    "protocols",
    "services",
    "debian_version",
    "os-release",
    "ssl/openssl.cnf",
    "ssl/certs/ca-certificates.crt",
    "pki/tls/certs/ca-bundle.crt",
    "pki/tls/openssl.cnf",
    "magic",
    "bash.bashrc",
    "profile",
)
PLACES = ("ssl", "ca-certificates", "pki", "crypto-policies")
"""Host folders that setup gets whole, bound over ours."""


def etc_folder(state: Path, interpreter: Interpreter) -> Path:
    """The folder for this interpreter and this host as it is now, built when it is not there yet.

    Raises:
        SandboxError: it cannot be written.
    """
    key = digest([interpreter.identity, bundle_digest(), dict(_FILES), _stamps()]).removeprefix("sha256:")[:24]
    folder = state / "etc" / key
    if not folder.is_dir():
        try:
            _build(folder, interpreter)
        except OSError as error:
            msg = f"cannot write {folder}: {error}"
            raise SandboxError(msg) from error
    return folder


def _stamps() -> list[Json]:
    """What tells that the host's own files changed."""
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
    for place in PLACES:
        (building / place).mkdir(exist_ok=True)
    for name in _COPIED:
        _copy(Path("/etc") / name, building / name)
    compile_server(interpreter, building / SERVER_DIR.removeprefix("/etc/"))
    for path in [building, *building.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
    try:
        building.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
        shutil.rmtree(building)  # somebody else was quicker; theirs is the same


def _copy(source: Path, target: Path) -> None:
    """Links are kept as links where they lead to what a sandbox also has, and resolved otherwise."""
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
