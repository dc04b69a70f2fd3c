"""Forwards connections to 127.0.0.1:PORT to a unix socket. Runs inside a sandbox, in one thread.

    python3 forward.py PORT SOCKET

Prints `ready PORT` when it listens. It buffers at most BUFFER bytes per direction, so that a slow reader slows the
writer down instead of filling memory.
"""

from __future__ import annotations

import selectors
import socket
import sys

BUFFER = 1 << 18
MAX_PAIRS = 128


class Endpoint:
    """One socket of a pair, and the data waiting to be written to it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.pending = bytearray()
        self.peer: Endpoint = self
        self.readable = True
        """More data may arrive from this socket."""
        self.peer_ended = False
        """The peer sent its last byte: shut this socket down once everything is written."""
        self.closed = False


class Forwarder:
    def __init__(self, port: int, target: str) -> None:
        self.target = target
        self.poll = selectors.PollSelector()  # the kernel limits epoll per user
        self.listener = socket.create_server(("127.0.0.1", port), backlog=MAX_PAIRS)
        self.listener.setblocking(False)
        self.poll.register(self.listener, selectors.EVENT_READ)
        self.pairs = 0

    def serve(self) -> None:
        while True:
            for key, events in self.poll.select():
                endpoint = key.data
                if endpoint is None:
                    self.accept()
                    continue
                if events & selectors.EVENT_WRITE and not endpoint.closed:
                    self.write(endpoint)
                if events & selectors.EVENT_READ and not endpoint.closed:
                    self.read(endpoint)

    def accept(self) -> None:
        try:
            client, _ = self.listener.accept()
        except OSError:
            return
        if self.pairs >= MAX_PAIRS:
            client.close()
            return
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self.target)
        except OSError:
            # The harness's server is gone: the client sees a closed connection.
            server.close()
            client.close()
            return
        self.pairs += 1
        inside, outside = Endpoint(client), Endpoint(server)
        inside.peer, outside.peer = outside, inside
        for endpoint in (inside, outside):
            endpoint.sock.setblocking(False)
            self.poll.register(endpoint.sock, selectors.EVENT_READ, endpoint)

    def read(self, endpoint: Endpoint) -> None:
        try:
            data = endpoint.sock.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            self.close(endpoint)
            return
        if data:
            endpoint.peer.pending += data
        else:
            endpoint.readable = False
            endpoint.peer.peer_ended = True
        self.write(endpoint.peer)

    def write(self, endpoint: Endpoint) -> None:
        try:
            while endpoint.pending:
                sent = endpoint.sock.send(endpoint.pending)
                del endpoint.pending[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self.close(endpoint)
            return
        if endpoint.peer_ended and not endpoint.pending and (not endpoint.readable or self.shut_down(endpoint)):
            self.close(endpoint)
            return
        self.watch(endpoint)
        self.watch(endpoint.peer)

    def shut_down(self, endpoint: Endpoint) -> bool:
        """Signal the end of data. Return True if the connection is already gone."""
        try:
            endpoint.sock.shutdown(socket.SHUT_WR)
        except OSError:
            return True
        return False

    def watch(self, endpoint: Endpoint) -> None:
        events = 0
        if endpoint.readable and len(endpoint.peer.pending) < BUFFER:
            events |= selectors.EVENT_READ
        if endpoint.pending:
            events |= selectors.EVENT_WRITE
        known = endpoint.sock in self.poll.get_map()
        if not events and known:
            self.poll.unregister(endpoint.sock)
        elif events and known:
            self.poll.modify(endpoint.sock, events, endpoint)
        elif events:
            self.poll.register(endpoint.sock, events, endpoint)

    def close(self, endpoint: Endpoint) -> None:
        self.pairs -= 1
        for each in (endpoint, endpoint.peer):
            if not each.closed:
                each.closed = True
                if each.sock in self.poll.get_map():
                    self.poll.unregister(each.sock)
                each.sock.close()


def main() -> None:
    port, target = int(sys.argv[1]), sys.argv[2]
    forwarder = Forwarder(port, target)
    sys.stdout.write(f"ready {forwarder.listener.getsockname()[1]}\n")
    sys.stdout.flush()
    forwarder.serve()


if __name__ == "__main__":
    main()
