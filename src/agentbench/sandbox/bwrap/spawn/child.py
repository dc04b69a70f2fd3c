"""The forked child that turns into a sandbox: joins cgroups, builds mounts, drops privileges, executes bubblewrap.

As root, the child mounts everything in a private mount namespace and drops its privileges for good right before it
executes bubblewrap: a bubblewrap that runs as root would leave the sandbox root's power over the host. As an ordinary
user, it mounts in a user namespace. In both cases the mounts are staged over /tmp of the private namespace, with short
names that reveal nothing about the host. Sources are opened before that, so they may lie under /tmp or under a home
that the sandbox's user cannot enter.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import socket
from typing import TypedDict

STAGE = "/tmp"
SOURCES = f"{STAGE}/s"
LAYERS = f"{STAGE}/l"
DISK = f"{STAGE}/d"
MERGED = f"{STAGE}/m"
EMPTY = f"{STAGE}/e"

CLONE_NEWNS = 0x0002_0000
CLONE_NEWUSER = 0x1000_0000
MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_RELATIME = 1 << 21
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
"""Devices of the host that bubblewrap binds in the sandbox's `/dev`."""
PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


class Cgroup(TypedDict):
    dir: str
    settings: list[tuple[str, str]]


class SpawnRequest(TypedDict):
    """The harness's request for one sandbox."""

    id: str
    cgroups: list[Cgroup]
    evidence: list[str]
    """Files to read when the sandbox has ended, before its cgroups are removed."""
    uid: int | None
    """Drop to this uid and gid (the harness is root); None: keep the current user."""
    userxattr: bool
    copies: bool
    """Copy the layers into the writable layer instead of mounting an overlay."""
    sources: list[str]
    """Host paths; bubblewrap sees them as SOURCES/0, SOURCES/1, …"""
    layers: list[str]
    folders: list[str]
    """Top folders of the writable layer."""
    size: int
    inodes: int
    upper: str
    """A host folder for the writable layer; empty: a tmpfs of `size` bytes."""
    limits: list[tuple[int, int]]
    argv: list[str]
    seccomp: bytes


def exec_sandbox(request: SpawnRequest, control: socket.socket, channel: int, errors: int) -> None:
    """Turn this forked process into bubblewrap. Never returns; writes a failure to `errors` and exits."""
    try:
        for number in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        for group in request["cgroups"]:
            write_file(f"{group['dir']}/cgroup.procs", "0")
        _enter_namespaces(request["uid"])
        _build_mounts(request)
        _send_trees(control)
        for kind, value in request["limits"]:
            _set_limit(kind, value)
        if request["uid"] is not None:
            os.setgroups([])
            os.setresgid(request["uid"], request["uid"], request["uid"])
            os.setresuid(request["uid"], request["uid"], request["uid"])
        _exec(request, channel, errors)
    except BaseException as error:  # noqa: BLE001 - a forked child must not return into the spawner's loop
        os.write(errors, f"sandbox start: {error}\n".encode())
    os._exit(70)


def _enter_namespaces(uid: int | None) -> None:
    if uid is not None:
        unshare(CLONE_NEWNS)
    else:
        user, group = os.geteuid(), os.getegid()
        unshare(CLONE_NEWUSER | CLONE_NEWNS)
        write_file("/proc/self/setgroups", "deny")
        write_file("/proc/self/uid_map", f"{user} {user} 1")
        write_file("/proc/self/gid_map", f"{group} {group} 1")
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    for name in DEVICES:
        _mount_read_only(f"/dev/{name}")


def _mount_read_only(device: str) -> None:
    """Keep everyone from setting the times of a device of the host. It can be written to all the same."""
    if not os.path.exists(device):
        return
    present = os.statvfs(device).f_flag  # an ordinary user must keep the options of the mount
    options = present & (MS_NOSUID | MS_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME)
    if present & os.ST_RELATIME:
        options |= MS_RELATIME
    mount(device, device, flags=MS_BIND)
    mount("none", device, flags=MS_BIND | MS_REMOUNT | MS_RDONLY | options)


def _build_mounts(request: SpawnRequest) -> None:
    uid = os.geteuid() if request["uid"] is None else request["uid"]
    gid = os.getegid() if request["uid"] is None else request["uid"]
    # Opened inside the new namespace (descriptors of the old one cannot be bound) and before the stage hides /tmp.
    sources = [os.open(path, os.O_PATH | os.O_CLOEXEC) for path in request["sources"]]
    layers = [os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for path in request["layers"]]
    upper = os.open(request["upper"], os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) if request["upper"] else -1
    mount("ab", STAGE, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=0755")
    for folder in (SOURCES, LAYERS, DISK, MERGED):
        os.mkdir(folder, 0o755)
    for index, fd in enumerate(sources):
        _bind(fd, f"{SOURCES}/{index}")
    for index, fd in enumerate(layers):
        _bind(fd, f"{LAYERS}/{index}")
    if upper >= 0:
        mount(f"/proc/self/fd/{upper}", DISK, flags=MS_BIND)
    else:
        options = f"size={request['size']},nr_inodes={request['inodes']},mode=0755,uid={uid},gid={gid}"
        mount("ab", DISK, "tmpfs", MS_NOSUID | MS_NODEV, options)
    for name in ("u", "w", "tmp", "shm", *(f"u/{folder}" for folder in request["folders"])):
        os.mkdir(f"{DISK}/{name}", 0o755)
        os.chown(f"{DISK}/{name}", uid, gid)
    for name in ("tmp", "shm"):
        os.chmod(f"{DISK}/{name}", 0o1777)  # noqa: S103 - the mode of /tmp
    lower = [f"{LAYERS}/{index}" for index in range(len(layers))]
    if request["copies"]:
        for layer in reversed(lower):
            _copy_tree(layer, f"{DISK}/u", request["uid"])
        mount(f"{DISK}/u", MERGED, flags=MS_BIND)
    else:
        os.mkdir(EMPTY, 0o755)
        _overlay(lower or [EMPTY], userxattr=request["userxattr"])
        # The first source is the sandbox's /etc. A plain bind would show its path below the state folder in the mount
        # table inside; an overlay with an empty folder shows only the short names of the stage.
        mount("overlay", f"{SOURCES}/0", "overlay", MS_NOSUID | MS_NODEV, f"lowerdir={SOURCES}/0:{EMPTY}")


def _overlay(lower: list[str], *, userxattr: bool) -> None:
    # No redirected folders and no partial copies: the harness reads the upper layer as the list of changes.
    extra = "userxattr" if userxattr else "redirect_dir=nofollow,metacopy=off,index=off"
    options = f"lowerdir={':'.join(lower)},upperdir={DISK}/u,workdir={DISK}/w,{extra}"
    mount("overlay", MERGED, "overlay", MS_NOSUID | MS_NODEV, options)


def _copy_tree(source: str, target: str, owner: int | None) -> None:
    """Merge a frozen layer into `target`, for kernels that refuse overlays. Nothing else writes to either."""
    with os.scandir(source) as entries:
        for entry in entries:
            path = f"{target}/{entry.name}"
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), path)
            elif entry.is_dir(follow_symlinks=False):
                os.makedirs(path, exist_ok=True)
                _copy_tree(entry.path, path, owner)
                shutil.copystat(entry.path, path)
            else:
                shutil.copy2(entry.path, path)
            if owner is not None:
                os.chown(path, owner, owner, follow_symlinks=False)


def _bind(fd: int, target: str) -> None:
    if os.path.isdir(f"/proc/self/fd/{fd}"):
        os.mkdir(target, 0o755)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    mount(f"/proc/self/fd/{fd}", target, flags=MS_BIND | MS_REC)


def _send_trees(control: socket.socket) -> None:
    """Send the harness directory descriptors of the merged tree and the upper layer."""
    fds = [os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) for path in (MERGED, f"{DISK}/u")]
    socket.send_fds(control, [b"fds"], fds)
    for fd in fds:
        os.close(fd)


def _exec(request: SpawnRequest, channel: int, errors: int) -> None:
    os.chdir("/")
    os.umask(0o022)
    os.dup2(channel, 0)
    os.dup2(channel, 1)
    os.dup2(errors, 2)
    reader, writer = os.pipe()
    os.write(writer, request["seccomp"])
    os.close(writer)
    os.set_inheritable(reader, True)
    argv = [str(reader) if item == "{seccomp}" else item for item in request["argv"]]
    # An empty environment: no variable of the harness reaches the sandbox.
    os.execve(argv[0], argv, {})  # noqa: S606


def _set_limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))


def write_file(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


# --- system calls without a binding in the standard library ------------------------------------------------------


def _check_call(result: int, name: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    _check_call(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), options.encode() or None
    )
    _check_call(result, f"mount {kind or 'bind'} on {target}" + (f" ({options})" if options else ""))


def become_subreaper() -> None:
    """Adopt the orphans of a sandbox whose bubblewrap was killed, so that their end can be observed."""
    _check_call(_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")
