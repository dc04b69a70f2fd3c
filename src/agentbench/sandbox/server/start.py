"""How the command server begins: what it closes, gives up and hides before it listens."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import posix
import sys

from agentbench.sandbox.server.server import Server

PR_SET_DUMPABLE = 4
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
SIGINT = 2


def connected(path: str) -> int:
    import _socket  # noqa: PLC0415 - only where the host is reached by a path

    wire = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    wire.connect(path)
    return wire.detach()


def undumpable() -> None:
    # prctl has no binding in the standard library; the whole of ctypes would take 3 ms to load.
    import _ctypes  # noqa: PLC0415

    prctl = _ctypes.dlsym(_ctypes.dlopen(None, 2), "prctl")  # type: ignore[arg-type]
    _ctypes.call_function(prctl, (PR_SET_DUMPABLE, 0, 0, 0, 0))


def apply_filter(path: str) -> None:
    """A system call filter on top of the one we were started with, for us and everything we start."""
    import ctypes  # noqa: PLC0415 - only where whoever started us could not do it

    fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    program = posix.read(fd, 1 << 16)
    posix.close(fd)

    class Program(ctypes.Structure):
        _fields_ = (("count", ctypes.c_ushort), ("instructions", ctypes.c_char_p))

    libc = ctypes.CDLL(None, use_errno=True)
    wanted = Program(len(program) // 8, program)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(wanted), 0, 0):
        raise OSError(ctypes.get_errno(), "the system call filter was refused")


def main() -> None:
    options = dict(item.partition("=")[::2] for item in sys.argv[1:])
    # Bubblewrap lets descriptors of its own through (status, filter); nothing inside may have them.
    posix.closerange(3, 1024)
    # Python's own handler would turn `kill -INT 1` from inside into an exception here.
    _signal.signal(SIGINT, _signal.SIG_IGN)
    if "nproc" in options:
        import resource  # noqa: PLC0415 - only where no cgroup counts

        resource.setrlimit(resource.RLIMIT_NPROC, (int(options["nproc"]),) * 2)
    # The host's socket came as stdin, or listens at a path; commands must not see it, nor our other descriptors (all
    # close on exec).
    server = Server(connected(options["socket"]) if "socket" in options else posix.dup(0), options)
    undumpable()
    if "filter" in options:
        apply_filter(options["filter"])
    server.serve()


if __name__ == "__main__":
    main()
