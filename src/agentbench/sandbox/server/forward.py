"""Leads connections to 127.0.0.1:PORT to a unix socket. Runs inside a sandbox: standard library only, one thread.

    python3 forward.py PORT SOCKET

Says `ready PORT` when it listens. Bytes are passed on as they come; of each direction at most BUFFER bytes are held, so that a
slow reader slows the writer down instead of filling memory.
"""

from __future__ import annotations

import selectors
import socket
import sys

BUFFER = 1 << 18
MAX_PAIRS = 128


class Side:
    """One socket of a pair, and what waits to be written to it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.pending = bytearray()
        self.other: Side = self
        self.reads = True
        """Whether more may come from it."""
        self.ended = False
        """Whether the other side has ended, so that this one must be told once everything is written."""
        self.closed = False


class Forwarder:
    def __init__(self, port: int, target: str) -> None:
        self.target = target
        self.poll = selectors.DefaultSelector()
        self.listener = socket.create_server(("127.0.0.1", port), backlog=MAX_PAIRS)
        self.listener.setblocking(False)
        self.poll.register(self.listener, selectors.EVENT_READ)
        self.pairs = 0

    def serve(self) -> None:
        while True:
            for key, events in self.poll.select():
                side = key.data
                if side is None:
                    self.accept()
                    continue
                if events & selectors.EVENT_WRITE and not side.closed:
                    self.write(side)
                if events & selectors.EVENT_READ and not side.closed:
                    self.read(side)

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
            # The gateway is gone: a client sees a connection that ends, as with any server.
            server.close()
            client.close()
            return
        self.pairs += 1
        here, there = Side(client), Side(server)
        here.other, there.other = there, here
        for side in (here, there):
            side.sock.setblocking(False)
            self.poll.register(side.sock, selectors.EVENT_READ, side)

    def read(self, side: Side) -> None:
        try:
            data = side.sock.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            self.close(side)
            return
        if data:
            side.other.pending += data
        else:
            side.reads = False
            side.other.ended = True
        self.write(side.other)

    def write(self, side: Side) -> None:
        try:
            while side.pending:
                sent = side.sock.send(side.pending)
                del side.pending[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self.close(side)
            return
        if side.ended and not side.pending and (not side.reads or self.shut(side)):
            self.close(side)
            return
        self.watch(side)
        self.watch(side.other)

    def shut(self, side: Side) -> bool:
        """Tell a side that nothing more comes; true when it is gone anyway."""
        try:
            side.sock.shutdown(socket.SHUT_WR)
        except OSError:
            return True
        return False

    def watch(self, side: Side) -> None:
        events = 0
        if side.reads and len(side.other.pending) < BUFFER:
            events |= selectors.EVENT_READ
        if side.pending:
            events |= selectors.EVENT_WRITE
        known = side.sock in self.poll.get_map()
        if not events and known:
            self.poll.unregister(side.sock)
        elif events and known:
            self.poll.modify(side.sock, events, side)
        elif events:
            self.poll.register(side.sock, events, side)

    def close(self, side: Side) -> None:
        self.pairs -= 1
        for one in (side, side.other):
            if not one.closed:
                one.closed = True
                if one.sock in self.poll.get_map():
                    self.poll.unregister(one.sock)
                one.sock.close()


def main() -> None:
    port, target = int(sys.argv[1]), sys.argv[2]
    forwarder = Forwarder(port, target)
    sys.stdout.write(f"ready {forwarder.listener.getsockname()[1]}\n")
    sys.stdout.flush()
    forwarder.serve()


if __name__ == "__main__":
    main()
