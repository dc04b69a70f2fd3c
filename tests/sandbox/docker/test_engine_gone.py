"""An engine that went away is trouble of the host; an engine that is slow is not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbench.sandbox.docker import engine as engine_module
from agentbench.sandbox.docker.engine import Engine, EngineFacts

pytestmark = [pytest.mark.req("G-14"), pytest.mark.component]

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"


class FakeEngine:
    """Accepts connections at a socket and gives the same answer to each; None: no answer."""

    def __init__(self, path: Path) -> None:
        self.answer: bytes | None = ANSWER
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        self._socket.listen()
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            connection.recv(65536)
            if self.answer is None:
                self._open.append(connection)
            else:
                connection.sendall(self.answer)
                connection.close()

    def stop(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for connection in (self._socket, *self._open):
            connection.close()


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeEngine]:
    server = FakeEngine(tmp_path / "docker.sock")
    yield server
    server.stop()


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = Engine.__new__(Engine)
    engine.facts = EngineFacts(
        id="e", version="1", rootless=False, cgroup_version="2", memory_limit=True, pids_limit=True, cpu_limit=True,
        plain_overlay=True, address=f"unix://{tmp_path}/docker.sock",
    )  # fmt: skip
    return engine


def test_answering_engine_is_there(engine: Engine, fake: FakeEngine) -> None:
    assert not engine.gone()


def test_engine_that_resets_the_connection_is_gone(engine: Engine, fake: FakeEngine) -> None:
    fake.answer = b""
    assert engine.gone()


def test_silent_engine_is_not_gone(engine: Engine, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "_PING_SEC", 0.2)
    fake.answer = None
    assert not engine.gone()


def test_silent_engine_is_slow_when_a_container_is_created(
    engine: Engine, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "_REQUEST_SEC", 0.2)
    fake.answer = None
    with pytest.raises(engine_module.EngineSlow, match="does not answer within"):
        engine.create_container("name", {})


def test_engine_that_died_or_was_removed_is_gone(engine: Engine, tmp_path: Path) -> None:
    fake = FakeEngine(tmp_path / "docker.sock")
    assert not engine.gone()
    fake.stop()
    assert engine.gone()
    (tmp_path / "docker.sock").unlink()
    assert engine.gone()
