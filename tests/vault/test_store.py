from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentbench.core.errors import InputError, RecordError
from agentbench.core.ids import new_ulid
from agentbench.trace.events import VaultAccess
from agentbench.vault import access_log
from agentbench.vault.age import (
    Protection,
    Unlock,
    Unreadable,
    WrongKey,
    check_recipient,
    decrypt,
    new_identity,
    read_identities,
    recipient_of,
    write_identity,
)
from agentbench.vault.store import RunStore, unsalted

pytestmark = [pytest.mark.req("E-10b", "E-10c"), pytest.mark.component]

APPEND = """
import sys
from pathlib import Path
from agentbench.vault.access_log import append, entry
for number in range(int(sys.argv[3])):
    append(Path(sys.argv[1]), entry(action="get", outcome="granted", who=sys.argv[2], reason=str(number), run_id="R"))
"""


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "store", new_ulid())


def access(who: str = "eve") -> VaultAccess:
    return access_log.entry(action="get", outcome="granted", who=who, reason="test", run_id="R")


def test_originals_are_readable_only_with_the_key(store: RunStore) -> None:
    identity, recipient = new_identity()
    store.create(Protection((recipient,)))
    attempt = new_ulid()
    store.attempt(attempt, withhold=False).keep("event:3", b"the secret text")
    assert not any(b"secret text" in path.read_bytes() for path in store.folder.iterdir())
    (entry,) = store.entries(attempt)
    assert (entry.place, entry.kept.bytes) == ("event:3", 15)
    key = store.identity(Unlock((identity,)))
    assert unsalted(decrypt(entry.data, [key])) == b"the secret text"
    with pytest.raises(WrongKey):
        store.identity(Unlock((new_identity()[0],)))


def test_each_of_several_recipients_has_access(store: RunStore) -> None:
    keys = [new_identity() for _ in "12"]
    store.create(Protection(tuple(recipient for _, recipient in keys)))
    assert len({store.identity(Unlock((identity,))) for identity, _ in keys}) == 1


def test_protection_of_the_key_is_known_without_a_secret(store: RunStore) -> None:
    (identity, recipient), (_, another) = new_identity(), new_identity()
    store.create(Protection((recipient,)))
    assert store.protected_by(Protection((recipient,)))
    assert not store.protected_by(Protection((recipient, another)))
    store.rotate(Unlock((identity,)), Protection((another,)))
    assert store.protected_by(Protection((another,)))
    assert not store.protected_by(Protection((recipient,)))
    with pytest.raises(WrongKey):
        store.identity(Unlock((identity,)))


def test_passphrase_protects_the_key(store: RunStore) -> None:
    # Each use of a passphrase takes a second of CPU time, by intent.
    identity, recipient = new_identity()
    phrase = Protection(passphrase="correct horse")
    store.create(Protection((recipient,)))
    assert not store.protected_by(phrase)
    store.rotate(Unlock((identity,)), phrase)
    assert store.protected_by(phrase)
    assert not store.protected_by(Protection((recipient,)))
    with pytest.raises(WrongKey):
        store.identity(Unlock((identity,)))
    with pytest.raises(WrongKey, match="passphrase is wrong"):
        store.identity(Unlock(passphrase="battery staple"))


def test_equal_originals_have_different_digests(store: RunStore) -> None:
    store.create(Protection((new_identity()[1],)))
    originals = store.attempt(new_ulid(), withhold=False)
    originals.keep("event:1", b"password")
    originals.keep("event:2", b"password")
    kept = originals.kept()
    assert kept["event:1"].sha256 != kept["event:2"].sha256


def test_original_after_a_torn_line_is_kept(store: RunStore) -> None:
    store.create(Protection((new_identity()[1],)))
    originals = store.attempt(new_ulid(), withhold=False)
    originals.keep("event:1", b"first")
    originals.keep("event:2", b"second")
    originals.file.write_bytes(originals.file.read_bytes()[:-9])
    originals.keep("event:3", b"third")
    assert set(originals.kept()) == {"event:1", "event:3"}


def test_changed_key_is_reported(store: RunStore) -> None:
    identity, recipient = new_identity()
    store.create(Protection((recipient,)))
    key = store.folder / "key.age"
    data = bytearray(key.read_bytes())
    data[-1] ^= 1
    key.write_bytes(bytes(data))
    with pytest.raises(Unreadable):
        store.identity(Unlock((identity,)))


@pytest.mark.parametrize("name", ["../other", "", "01ARZ3NDEKTSV4RRFFQ69G5FA/"])
def test_run_id_cannot_leave_the_store(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="not the id of a run"):
        RunStore(tmp_path, name)


def test_key_file_is_private_and_never_replaced(tmp_path: Path) -> None:
    file = tmp_path / "audit.key"
    recipient = write_identity(file)
    assert file.stat().st_mode & 0o777 == 0o600
    (identity,) = read_identities(file)
    assert recipient_of(identity) == check_recipient(recipient) == recipient
    with pytest.raises(InputError, match="exists"):
        write_identity(file)
    file.chmod(0o640)
    with pytest.raises(InputError, match="can be read by other users"):
        read_identities(file)


def test_secret_key_as_recipient_is_refused_without_showing_it() -> None:
    identity, _ = new_identity()
    with pytest.raises(InputError, match="It is a secret key") as caught:
        check_recipient(identity)
    assert identity not in caught.value.message


def test_processes_share_one_chain(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", APPEND, tmp_path, who, "20"], env=dict(os.environ)) for who in "abc"
    ]
    assert [process.wait() for process in processes] == [0, 0, 0]
    events = [event.payload for event in access_log.accesses(tmp_path)]
    assert access_log.head(tmp_path).startswith("sha256:")
    for who in "abc":
        assert [event.reason for event in events if isinstance(event, VaultAccess) and event.who == who] == [
            str(number) for number in range(20)
        ]


def test_changed_access_log_accepts_no_further_access(tmp_path: Path) -> None:
    for who in ("eve", "bob", "ann"):
        access_log.append(tmp_path, access(who))
    path = tmp_path / access_log.LOG
    path.write_bytes(path.read_bytes().replace(b'"bob"', b'"tom"'))
    with pytest.raises(RecordError, match="chain is broken"):
        access_log.append(tmp_path, access())
    with pytest.raises(RecordError, match="chain is broken"):
        access_log.head(tmp_path)


def test_incomplete_line_of_the_access_log_is_replaced(tmp_path: Path) -> None:
    access_log.append(tmp_path, access("eve"))
    with (tmp_path / access_log.LOG).open("ab") as file:
        file.write(b'{"actor":"oper')
    assert access_log.append(tmp_path, access("bob")) == 2
    assert len(list(access_log.accesses(tmp_path))) == 2
