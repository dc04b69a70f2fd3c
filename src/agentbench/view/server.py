"""Starts and stops the server of the view."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.sandbox.state import default_state

if TYPE_CHECKING:
    import uvicorn

    from agentbench.view.app import View

INSTALL = "pip install 'agentbench-harness[view]'"
MAX_CONNECTIONS = 256


@dataclass(frozen=True)
class ViewServer:
    """A server that is bound to its port and not running yet."""

    url: str
    loopback: bool
    _server: uvicorn.Server
    _socket: socket.socket
    _view: View

    def serve(self) -> None:
        """Serve until the process is interrupted, or `stop` is called."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._view.close()
            self._socket.close()

    def stop(self) -> None:
        self._view.stopping = True
        self._server.should_exit = True


def open_server(
    paths: Sequence[Path], *, host: str = "127.0.0.1", port: int = 0, read_only: bool = False, tasks_dir: Path
) -> ViewServer:
    """Bind a server to its port.

    Raises:
        InputError: the extra `view` is not installed, a path is not a folder, or the port cannot be used.
    """
    try:
        import duckdb  # noqa: F401, PLC0415 - optional dependency
        import starlette  # noqa: F401, PLC0415 - optional dependency
        import uvicorn  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise InputError(f"ab view needs {error.name}, which is not installed", remedy=INSTALL) from None
    from agentbench.view.app import View, make_app  # noqa: PLC0415 - needs starlette
    from agentbench.view.roots import Roots  # noqa: PLC0415 - with the rest of the view
    from agentbench.view.security import Guard, kept_secret  # noqa: PLC0415 - with the rest of the view

    for path in paths:
        if not path.is_dir():
            raise InputError(f"{path} is not a folder", remedy="give a run directory or a folder of runs")
    bound = _bind(host, port)
    roots = Roots.of(paths)
    secret = kept_secret(default_state()) if port else secrets.token_bytes(32)
    served = "\0".join(map(str, roots.paths))
    guard = Guard(host, bound.getsockname()[1], read_only, secret, served)
    view = View.over(roots, guard, tasks_dir.absolute())
    config = uvicorn.Config(
        make_app(view),
        log_level="warning",
        access_log=False,
        lifespan="off",
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=2,
        server_header=False,
        date_header=False,
        http="h11",
        ws="none",
        proxy_headers=False,
        h11_max_incomplete_event_size=32 * 1024,
    )
    return ViewServer(guard.url, guard.loopback, _server(config, view), bound, view)


@contextmanager
def background_server(server: ViewServer) -> Iterator[ViewServer]:
    """Serve in a thread while the block runs."""
    thread = threading.Thread(target=server.serve, name="view", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(10)


def _server(config: uvicorn.Config, view: View) -> uvicorn.Server:
    """Return a server that ends stalled connections, and its streams when it is asked to stop."""
    import uvicorn  # noqa: PLC0415 - optional dependency

    from agentbench.view.stalled import StalledConnections  # noqa: PLC0415 - with the rest of the view

    stalled = StalledConnections(MAX_CONNECTIONS)

    class Server(uvicorn.Server):
        async def on_tick(self, counter: int) -> bool:
            if counter % 10 == 0:  # about once per second
                stalled.end(self.server_state.connections, time.monotonic())
            return await super().on_tick(counter)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            view.stopping = True
            await super().shutdown(sockets)

    return Server(config)


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(128)
    except OSError as error:
        msg = f"cannot listen on {host}:{port}: {error.strerror or error}"
        raise InputError(msg, remedy="choose another port with --port") from None
    return bound
