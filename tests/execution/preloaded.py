"""Run `ab` in processes that share its imports.

Importing `ab` takes longer than most commands, and the tests run more than a thousand of them. A server imports all of
its modules once and forks for each command. The new process gets arguments, folder, environment and output files of the
caller and calls the entry point of `ab`, as the installed program does.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

LONGEST_REQUEST = 1 << 17
NOT_IMPORTED = ("agentbench.acceptance.runner", "agentbench.sandbox.server", "agentbench.demo", "agentbench.mcp_server")
"""Packages that run in sandboxes only, data, and the MCP server, whose imports are slow."""


def run_preloaded(
    arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run `ab` without input and wait for its end, as `subprocess.run` does."""
    assert not [name for name in env if name.startswith("PYTHON")], "the interpreter has already started"
    request = json.dumps({"arguments": list(arguments), "cwd": str(cwd), "env": dict(env)}).encode()
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection,
    ):
        connection.connect(_start_server())
        socket.send_fds(connection, [request], [out.fileno(), err.fileno()])
        started = connection.recv(20)
        assert started, "the server of preloaded commands ended; its error is in the output of pytest"
        pid = int(started)
        connection.settimeout(timeout)
        try:
            code = int(connection.recv(20))
        except BaseException as error:
            os.kill(pid, signal.SIGKILL)
            if isinstance(error, TimeoutError):
                raise subprocess.TimeoutExpired(["ab", *arguments], timeout) from None
            raise
        texts = [(file.seek(0), file.read().decode())[1] for file in (out, err)]
    return subprocess.CompletedProcess(["ab", *arguments], code, *texts)


CLIENT = """\
#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
    connection.connect({address!r})
    request = {{"arguments": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}}
    socket.send_fds(connection, [json.dumps(request).encode()], [1, 2])
    connection.recv(20)
    sys.exit(int(connection.recv(20)))
"""


def write_preloaded_program(folder: Path) -> None:
    """Write a program `ab` that shell scripts can start, without input."""
    program = folder / "ab"
    program.write_text(CLIENT.format(python=sys.executable, address=_start_server()), encoding="utf-8")
    program.chmod(0o755)


@functools.cache
def _start_server() -> str:
    """Start the server of this process and return its address. Connections wait until it has imported everything."""
    address = f"\0ab-tests-{os.getpid()}-{os.urandom(8).hex()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen()
        server = subprocess.Popen(
            [sys.executable, __file__, str(listener.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
        )
    atexit.register(server.communicate)
    return address


# --- the server -----------------------------------------------------------------------------------------------------------------


def import_everything() -> None:
    import agentbench

    for module in pkgutil.walk_packages(agentbench.__path__, "agentbench."):
        if not module.name.startswith(NOT_IMPORTED) and not module.name.endswith((".runner", ".__main__")):
            importlib.import_module(module.name)


def build_models() -> None:
    """Build the validators of all models. Otherwise every command builds those that it uses."""
    from pydantic import BaseModel

    models = BaseModel.__subclasses__()
    for model in models:
        models += model.__subclasses__()
        model.model_rebuild()


def become_command(listener: socket.socket) -> None:
    """Fork for each connection and return in the new process. The server ends when its standard input is closed."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            _take_request(connection)
            return
        connection.close()
    sys.exit()


def _take_request(connection: socket.socket) -> None:
    """Fork once more: this process waits for the command and sends its exit code."""
    message, files, _, _ = socket.recv_fds(connection, LONGEST_REQUEST, 2)
    pid = os.fork()
    if pid:
        connection.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())
        os._exit(0)
    connection.close()
    request = json.loads(message)
    for number, file in enumerate([os.open(os.devnull, os.O_RDONLY), *files]):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.argv = ["ab", *request["arguments"]]


if __name__ == "__main__":
    sys.path.pop(0)  # this folder, which the installed program does not search
    from agentbench.cli.main import main

    import_everything()
    build_models()
    gc.freeze()
    become_command(socket.socket(fileno=int(sys.argv[1])))
    main()
