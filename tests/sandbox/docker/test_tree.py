"""The workspace of a container as the command server lists and reads it."""

from __future__ import annotations

from typing import cast

import pytest

from agentbench.core.command import Command
from agentbench.core.errors import SandboxLost
from agentbench.core.host_evidence import HostEvidence
from agentbench.sandbox.command_channel import CommandChannel
from agentbench.sandbox.docker.backend import DockerBackend
from agentbench.sandbox.docker.sandbox import DockerSandbox
from agentbench.sandbox.docker.tree import ChannelTree
from agentbench.sandbox.protocol import Prepared
from agentbench.sandbox.server.capture import pack
from agentbench.tree.entry import Kind
from tests.sandbox.conftest import SPEC

BACKENDS = ["docker"]


def test_unusual_files_are_listed_and_read(backend: DockerBackend, prepared: Prepared) -> None:
    code = (
        "import os\n"
        "open(b'caf\\xe9', 'w').write('latin'); open('new\\nline', 'w').write('x'); os.mkfifo('fifo')\n"
        "os.makedirs('many'); [open(f'many/{i:05}', 'w').close() for i in range(6000)]\n"
        "os.makedirs('locked/in'); open('locked/in/file', 'w').write('seen'); os.chmod('locked/in/file', 0)\n"
        "os.chmod('locked/in', 0); os.chmod('locked', 0)\n"
        "os.symlink('/etc', 'out'); os.makedirs('/'.join(['d'] * 300)); open('/'.join(['d'] * 300 + ['f']), 'w').close()\n"
        "open('big', 'wb').write(os.urandom(3 << 20))\n"
    )
    with backend.open(SPEC, prepared) as sandbox:
        assert sandbox.run(Command(argv=("python3", "-c", code))).ok
        entries = {entry.path: entry for entry in sandbox.tree().entries()}
        assert list(entries) == sorted(entries)
        assert entries[b"fifo"].kind is Kind.SPECIAL
        assert entries[b"caf\xe9"].size == 5
        assert b"new\nline" in entries
        assert b"locked/in/file" in entries
        assert sum(path.startswith(b"many/") for path in entries) == 6000
        assert b"/".join([b"d"] * 300 + [b"f"]) in entries
        tree = sandbox.tree()
        assert tree.read(b"locked/in/file", max_bytes=10) == b"seen"
        assert tree.read(b"out", max_bytes=10) == b"/etc"
        assert len(tree.read(b"big", max_bytes=4 << 20)) == 3 << 20
        for path, error in (
            (b"out/passwd", NotADirectoryError),
            (b"absent", FileNotFoundError),
            (b"many", IsADirectoryError),
            (b"../etc/passwd", FileNotFoundError),
        ):
            with pytest.raises(error):
                tree.read(path, max_bytes=10)


def test_every_change_of_a_file_is_noticed(backend: DockerBackend, prepared: Prepared) -> None:
    """Only files that were never touched may be taken from the known entries."""
    before = {entry.path: entry for entry in prepared.base_tree.entries()}
    changes = [
        "cp -p README saved; echo other > README; touch -r saved README; rm saved",
        "python3 -c \"import mmap; f = open('README', 'r+b'); m = mmap.mmap(f.fileno(), 4); m[:4] = b'READ'\"",
        "chmod +x README",
        "mv README x && cp x README && echo y >> README && mv -f README z && mv z README && rm x",
        "mv src other && mkdir src && cp other/app.py src/app.py && echo >> src/app.py && rm -r other",
        "ln README hard && echo more >> hard && rm hard",
        "mv keep keep2 && mv src keep && mv keep2 src && touch src/app.py keep/file",
    ]
    for change in changes:
        with backend.open(SPEC, prepared) as sandbox:
            assert isinstance(sandbox, DockerSandbox)
            assert sandbox.run(Command(line=change)).ok, change
            after = {entry.path: entry for entry in sandbox.tree().entries()}
            assert after != before, change
            assert after == {entry.path: entry for entry in sandbox.tree_at("/workspace").entries()}, change


@pytest.mark.parametrize(
    "answer",
    [
        [],
        [b"end"],
        [b"end", pack([pack([b"a", b"x", b"0", b"1", b""])])],
        [b"end", pack([pack([b"a", b"f"])])],
        [b"end", pack([pack([name, b"f", b"0", b"1", b""]) for name in (b"b", b"a")])],
    ],
    ids=["empty", "short", "unknown-kind", "missing-fields", "unsorted"],
)
def test_server_with_invalid_answers_is_lost(answer: list[bytes]) -> None:
    class Channel:
        def ask(self, *_: object, **__: object) -> list[bytes]:
            return answer

    lost = SandboxLost("it ended", sandbox="s", evidence=HostEvidence())
    tree = ChannelTree(cast("CommandChannel", Channel()), "/w", on_death=lambda _: lost)
    with pytest.raises(SandboxLost):
        list(tree.entries())
