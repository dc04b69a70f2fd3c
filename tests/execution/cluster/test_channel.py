"""The channel between driver and nodes: strangers, foreign attempts, hostile evidence and nodes that hang."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from agentbench.core.errors import HarnessError
from agentbench.execution.cluster.channel_client import ChannelClient, ChannelLost, Dismissed
from agentbench.execution.cluster.channel_keys import ChannelKey, fingerprint_of_pem, new_channel_key
from agentbench.execution.cluster.channel_server import ChannelServer, Exchange
from agentbench.execution.cluster.content import Address, ContentStore
from agentbench.execution.cluster.evidence_transfer import EvidenceReceiver, EvidenceSender
from agentbench.execution.cluster.wire import JsonDict, encode, read_amount

pytestmark = [pytest.mark.component, pytest.mark.req("R-14a")]


@dataclass
class Attempt:
    """The driver's side of an attempt that only receives evidence."""

    node: str
    receiver: EvidenceReceiver
    begun: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def handle(self, operation: str, exchange: Exchange) -> None:
        assert operation == "evidence"
        self.begun.set()
        try:
            self.receiver.receive(exchange)
        finally:
            self.ended.set()
        exchange.reply({})


class Listener:
    def heartbeat(self, node: str, value: JsonDict) -> JsonDict:
        return {"node": node}


@dataclass
class Channel:
    server: ChannelServer
    store: ContentStore
    folder: Path
    clients: ExitStack

    def client(self, key: ChannelKey, driver: str = "") -> ChannelClient:
        return self.clients.enter_context(
            closing(ChannelClient(self.server.url, key, driver or self.server.certificate))
        )

    def node(self, name: str = "node", *, trusted: bool = True) -> tuple[ChannelClient, str]:
        key = new_channel_key(name)
        if trusted:
            self.server.trust(key.certificate)
        return self.client(key), fingerprint_of_pem(key.certificate)

    def attempt(self, name: str, node: str) -> Attempt:
        (self.folder / name).mkdir()
        attempt = Attempt(node, EvidenceReceiver(self.folder / name))
        self.server.open_attempt(name, attempt)
        return attempt


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[Channel]:
    store = ContentStore()
    server = ChannelServer("127.0.0.1", new_channel_key("driver"), store, Listener())
    (tmp_path / "run").mkdir()
    with ExitStack() as clients:
        yield Channel(server, store, tmp_path / "run", clients)
    server.close()
    store.close()


def part(data: bytes = b"", **header: Any) -> bytes:
    return encode({"offset": 0, "size": len(data), "mode": 0o644, **header}) + b"\n" + data


def test_stranger_cannot_connect(channel: Channel) -> None:
    stranger, _ = channel.node(trusted=False)
    with pytest.raises(ChannelLost):
        stranger.post("/heartbeat", {})


def test_node_refuses_another_driver(channel: Channel) -> None:
    key = new_channel_key("node")
    channel.server.trust(key.certificate)
    with pytest.raises(ChannelLost):
        channel.client(key, new_channel_key("driver").certificate).post("/heartbeat", {})


def test_forgotten_node_is_dismissed(channel: Channel) -> None:
    client, fingerprint = channel.node()
    assert client.post("/heartbeat", {}) == {"node": fingerprint}
    channel.server.forget(fingerprint)
    with suppress(ChannelLost, Dismissed):
        client.post("/heartbeat", {})  # the open connection is shut down
    with pytest.raises(Dismissed):
        client.post("/heartbeat", {})


def test_certificate_that_a_node_issued_is_no_node(channel: Channel) -> None:
    """The library trusts what a node signs; the driver knows each node by its own certificate."""
    key = new_channel_key("node")
    channel.server.trust(key.certificate)
    client = channel.client(issued_by(key))
    with pytest.raises(HarnessError):
        client.post("/heartbeat", {})


def issued_by(key: ChannelKey) -> ChannelKey:
    signer = serialization.load_pem_private_key(key.private, None)
    issuer = x509.load_pem_x509_certificate(key.certificate.encode())
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    own = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "issued")]))
        .issuer_name(issuer.subject)
        .public_key(own.public_key())
        .serial_number(1)
        .not_valid_before(issuer.not_valid_before_utc)
        .not_valid_after(issuer.not_valid_after_utc)
        .sign(signer, hashes.SHA256())
    )
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    private = own.private_bytes(pem, pkcs8, serialization.NoEncryption())
    return ChannelKey(certificate.public_bytes(pem).decode() + key.certificate, private)


def test_node_reaches_only_its_own_attempts(channel: Channel) -> None:
    one, fingerprint = channel.node("one")
    two, _ = channel.node("two")
    channel.attempt("a", fingerprint)
    with pytest.raises(Dismissed):
        two.post_bytes("/attempts/a/evidence", part(b"x", name="manifest.json"))
    one.post_bytes("/attempts/a/evidence", part(b"x", name="manifest.json"))
    assert (channel.folder / "a/manifest.json").read_bytes() == b"x"


def test_content_is_sent_by_address_and_checked(channel: Channel) -> None:
    client, _ = channel.node()
    large = os.urandom(3 << 20)

    def write(file: BinaryIO) -> None:
        file.write(large)

    address = channel.store.once("key", write)
    assert channel.store.once("key", lambda _file: pytest.fail("written twice")) == address
    assert channel.store.add(large) == address
    fetched = io.BytesIO()
    client.fetch(address, fetched)
    assert fetched.getvalue() == large
    assert channel.store.sent_bytes == len(large)
    with pytest.raises(HarnessError, match="unknown content"):
        client.fetch(Address("0" * 64, 1), io.BytesIO())


@pytest.mark.parametrize(
    "body",
    [
        part(b"x", name="../outside"),
        part(b"x", name="/tmp/outside"),
        part(b"x", name="a\0b"),
        part(b"x", name="other/file"),
        part(b"x", name=".hidden"),
        part(b"x", name="logs/.hidden"),
        part(b"x", name="n" * 300),
        part(b"x", name=["list"]),
        part(b"x", name="logs"),
        part(b"", name="logs/link", link="/etc/passwd"),
        part(b"", name="repo/link", link="/etc") + part(b"x", name="repo/link/outside"),
        part(b"", name="repo/link", link="../../outside") + part(b"x", name="repo/link"),
        part(b"x", name="events.jsonl", offset=10),
        part(b"", name="manifest.json", size=-1),
        part(b"", name="manifest.json", size=1 << 60),
        part(b"x", name="manifest.json", mode="many"),
        b"not a header\n",
        b'{"names": 5}\n[[[[[',
        b'{"names": -5}\n',
        b"[" * 60_000,
    ],
)
def test_hostile_evidence_is_refused_and_writes_nothing_outside(channel: Channel, tmp_path: Path, body: bytes) -> None:
    client, fingerprint = channel.node()
    channel.attempt("a", fingerprint)
    (channel.folder / "a/logs").mkdir()
    with pytest.raises(HarnessError) as refused:
        client.post_bytes("/attempts/a/evidence", body)
    assert not isinstance(refused.value, ChannelLost)
    assert not list(tmp_path.rglob("outside"))
    assert not Path("/tmp/outside").exists()
    # The driver goes on.
    assert client.post("/heartbeat", {}) == {"node": fingerprint}


def test_node_that_hangs_while_it_sends_is_cut_off(channel: Channel) -> None:
    client, fingerprint = channel.node()
    attempt = channel.attempt("a", fingerprint)
    over = threading.Event()

    def stuck() -> Iterator[bytes]:
        yield part(b"", name="manifest.json", size=100)
        over.wait(60)
        yield bytes(100)

    def send() -> None:
        with pytest.raises(ChannelLost):
            client.post_bytes(
                "/attempts/a/evidence", stuck(), size=len(part(b"", name="manifest.json", size=100)) + 100
            )

    thread = threading.Thread(target=send)
    thread.start()
    assert attempt.begun.wait(60)
    channel.server.forget(fingerprint)
    assert attempt.ended.wait(60)
    over.set()
    thread.join(60)


def test_evidence_arrives_as_it_grows_and_as_it_ends(channel: Channel, tmp_path: Path) -> None:
    client, fingerprint = channel.node()
    channel.attempt("a", fingerprint)
    source = tmp_path / "attempt"
    for name in ("logs", "blobs", "repo"):
        (source / name).mkdir(parents=True)
    sender = EvidenceSender(source)

    def send(*, last: bool) -> None:
        chunks, size = sender.transfer("" if last else None)
        client.post_bytes("/attempts/a/evidence", chunks, size=size)

    (source / "events.jsonl").write_bytes(b"one\ntw")
    (source / "manifest.json").write_bytes(b"first")
    (source / "logs/temporary").write_bytes(b"x")
    send(last=False)
    assert (channel.folder / "a/events.jsonl").read_bytes() == b"one\n"
    (source / "manifest.json").write_bytes(b"second")
    (source / "events.jsonl").write_bytes(b"one\ntwo\n")
    send(last=False)
    assert (channel.folder / "a/manifest.json").read_bytes() == b"second"
    (source / "logs/temporary").unlink()
    (source / "repo/tool").write_bytes(b"#!")
    (source / "repo/tool").chmod(0o755)
    (source / "repo/link").symlink_to("tool")
    sender.forget()
    send(last=True)
    received = channel.folder / "a"
    assert sorted(path.relative_to(received).as_posix() for path in received.rglob("*") if not path.is_dir()) == [
        *("events.jsonl", "manifest.json", "repo/link", "repo/tool"),
    ]
    assert (received / "events.jsonl").read_bytes() == b"one\ntwo\n"
    assert os.access(received / "repo/tool", os.X_OK)


def test_large_file_that_grows_is_not_sent_each_time(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    sender, log = EvidenceSender(tmp_path), tmp_path / "logs/out"
    sent = 0
    for megabytes in range(2, 18):
        log.write_bytes(bytes(megabytes << 20))
        sent += sender.transfer()[1]
    assert sent < 2 * (17 << 20)


@pytest.mark.parametrize("amount", [{"micro": -1, "tokens": 0}, {"micro": 0, "tokens": -1}])
def test_nothing_is_paid_back(amount: JsonDict) -> None:
    with pytest.raises(ValueError, match="negative"):
        read_amount(amount)
