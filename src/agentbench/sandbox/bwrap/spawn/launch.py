"""What a forked child does to become a sandbox: join cgroups, build its mounts, drop its rights, become bubblewrap.

As root everything is mounted as root in a mount namespace of its own, and rights are dropped for good right before
bubblewrap starts: bubblewrap run as root leaves the sandbox root's power over the host. As an ordinary user the mounts are
made in a user namespace. Either way the mounts are staged over /tmp of the private namespace, with short names that tell
the inside nothing about the host; what is to be bound is opened before that, so it may lie under /tmp, or under a home
that the unprivileged user cannot enter.
"""

from __future__ import annotations

import array
import os
import resource
import signal
import socket
from typing import TypedDict

from agentbench.sandbox.bwrap.spawn.copied_tree import copy_into
from agentbench.sandbox.bwrap.spawn.kernel import (
    CLONE_NEWNS,
    CLONE_NEWUSER,
    MS_BIND,
    MS_NODEV,
    MS_NOSUID,
    MS_PRIVATE,
    MS_REC,
    mount,
    unshare,
)

STAGE = "/tmp"
SOURCES = f"{STAGE}/s"
LAYERS = f"{STAGE}/l"
DISK = f"{STAGE}/d"
MERGED = f"{STAGE}/m"
EMPTY = f"{STAGE}/e"


class Cgroup(TypedDict):
    dir: str
    settings: list[tuple[str, str]]


class Request(TypedDict):
    """One sandbox, as the harness asks for it."""

    id: str
    cgroups: list[Cgroup]
    evidence: list[str]
    """Files to read when the sandbox has ended, before its cgroups go."""
    uid: int | None
    """Drop to this uid and gid (the harness is root); None: stay who we are."""
    userxattr: bool
    copies: bool
    """No overlay: the layers are copied into the writable layer."""
    sources: list[str]
    """Host paths, seen by bubblewrap as SOURCES/0, SOURCES/1, …"""
    layers: list[str]
    folders: list[str]
    """Top folders of the writable layer."""
    size: int
    inodes: int
    upper: str
    """A host folder for the writable layer; empty: a tmpfs of the given size."""
    limits: list[tuple[int, int]]
    argv: list[str]
    seccomp: bytes


def become(request: Request, control: socket.socket, channel: int, errors: int) -> None:
    """Never returns. What goes wrong is written to `errors` and ends this process."""
    try:
        for number in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        for group in request["cgroups"]:
            _write(f"{group['dir']}/cgroup.procs", "0")
        for kind, value in request["limits"]:
            _limit(kind, value)
        _enter_namespaces(request["uid"])
        _mounts(request)
        _hand_over(control)
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
        me, group = os.geteuid(), os.getegid()
        unshare(CLONE_NEWUSER | CLONE_NEWNS)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{me} {me} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    mount("none", "/", flags=MS_REC | MS_PRIVATE)


def _mounts(request: Request) -> None:
    uid = os.geteuid() if request["uid"] is None else request["uid"]
    gid = os.getegid() if request["uid"] is None else request["uid"]
    # Opened inside the new namespace (descriptors of the old one cannot be bound) and before the stage covers /tmp.
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
        os.chmod(f"{DISK}/{name}", 0o1777)  # noqa: S103 - what a /tmp is
    lower = [f"{LAYERS}/{index}" for index in range(len(layers))]
    if request["copies"]:
        for layer in reversed(lower):
            copy_into(layer, f"{DISK}/u", request["uid"])
        mount(f"{DISK}/u", MERGED, flags=MS_BIND)
    else:
        os.mkdir(EMPTY, 0o755)
        _overlay(lower or [EMPTY], userxattr=request["userxattr"])
        # The first source is the sandbox's /etc. Bound as it is, its place below the state folder could be read from the
        # mount table inside; an overlay of nothing over it has only our own short names to tell.
        mount("overlay", f"{SOURCES}/0", "overlay", MS_NOSUID | MS_NODEV, f"lowerdir={SOURCES}/0:{EMPTY}")


def _overlay(lower: list[str], *, userxattr: bool) -> None:
    # No folder may be redirected and no file copied up in part: the harness reads the upper layer as "what changed".
    extra = "userxattr" if userxattr else "redirect_dir=nofollow,metacopy=off,index=off"
    options = f"lowerdir={':'.join(lower)},upperdir={DISK}/u,workdir={DISK}/w,{extra}"
    mount("overlay", MERGED, "overlay", MS_NOSUID | MS_NODEV, options)


def _bind(fd: int, target: str) -> None:
    if os.path.isdir(f"/proc/self/fd/{fd}"):
        os.mkdir(target, 0o755)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    mount(f"/proc/self/fd/{fd}", target, flags=MS_BIND | MS_REC)


def _hand_over(control: socket.socket) -> None:
    """Directory descriptors of the merged tree and of the upper layer, for the harness to read through."""
    fds = [os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) for path in (MERGED, f"{DISK}/u")]
    control.sendmsg([b"fds"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
    for fd in fds:
        os.close(fd)


def _exec(request: Request, channel: int, errors: int) -> None:
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
    # An empty environment: nothing of the harness's reaches the inside.
    os.execve(argv[0], argv, {})  # noqa: S606


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
