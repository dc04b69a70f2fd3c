"""The engine's own interface, for what happens with every sandbox.

The command line takes a tenth of a second and more of processor time to create and start one container; the two requests
behind it take none. Everything that happens once (images, copies, commits) goes through the command line.
"""

from __future__ import annotations

import http.client
import json
import socket
from urllib.parse import quote

from agentbench.core.canonical import Json
from agentbench.core.errors import SandboxError, SandboxUnavailable
from agentbench.core.text import printable

_PATIENCE_SEC = 120.0
_SHOWN = 1500


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("docker", timeout=_PATIENCE_SEC)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class ImageGone(SandboxError):
    """A container's image was removed behind our back."""


class Api:
    def __init__(self, path: str) -> None:
        """`path`: of the engine's socket."""
        self._path = path

    def create(self, name: str, config: dict[str, Json]) -> None:
        """
        Raises:
            SandboxUnavailable: no engine answers.
            SandboxError: it refused; the message is the engine's.
        """
        self._post(f"/containers/create?name={quote(name)}", config)

    def start(self, name: str) -> None:
        """
        Raises:
            SandboxUnavailable, SandboxError: as for `create`.
        """
        self._post(f"/containers/{quote(name)}/start", None)

    def _post(self, where: str, body: dict[str, Json] | None) -> None:
        # Without a version in the path an engine takes its own.
        connection = _UnixConnection(self._path)
        headers = {"Content-Type": "application/json"}
        try:
            connection.request("POST", where, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            said = answer.read(1 << 20)
        except (FileNotFoundError, ConnectionRefusedError) as error:
            remedy = "start it again, and use `ab run --resume`"
            raise SandboxUnavailable("no docker engine answers", remedy=remedy) from error
        except (OSError, http.client.HTTPException) as error:
            raise SandboxError(f"the docker engine does not answer: {error}") from error
        finally:
            connection.close()
        if answer.status == http.client.NOT_FOUND and b"no such image" in said.lower():
            remedy = "run again (`ab run --resume`): it is prepared anew"
            raise ImageGone(f"an image was removed while it was needed: {_message(said)}", remedy=remedy)
        if answer.status >= http.client.MULTIPLE_CHOICES:
            raise SandboxError(f"the docker engine refused a container: {_message(said)}")


def _message(said: bytes) -> str:
    try:
        text = str(json.loads(said)["message"])
    except (ValueError, KeyError, TypeError):
        text = said.decode("utf-8", "replace")
    return printable(text[:_SHOWN], keep="\n")
