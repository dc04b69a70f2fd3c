from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from agentbench.cli.keys import command
from agentbench.core.errors import InputError
from agentbench.signing.keys import (
    PublicKey,
    create_key,
    find_key,
    keys_folder,
    load_signing_key,
    parse_public,
    stored_keys,
)

pytestmark = pytest.mark.component


def test_key_signs_and_its_public_part_verifies(keys: Path) -> None:
    create_key("ada", None, keys)
    key = load_signing_key("ada", keys)
    public = parse_public((keys / "ada.pub").read_bytes())
    assert public.verifies(key.sign(b"data"), b"data")
    assert not public.verifies(key.sign(b"data"), b"other")


def test_private_key_is_encrypted_with_the_passphrase(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_key("ada", "secret", keys)
    with pytest.raises(InputError, match="is encrypted"):
        load_signing_key("ada", keys)
    monkeypatch.setenv("AB_KEY_PASSPHRASE", "wrong")
    with pytest.raises(InputError, match="wrong passphrase"):
        load_signing_key("ada", keys)
    monkeypatch.setenv("AB_KEY_PASSPHRASE", "secret")
    assert load_signing_key("ada", keys).public.key_id == find_key("ada", keys).public.key_id
    monkeypatch.delenv("AB_KEY_PASSPHRASE")
    assert load_signing_key("ada", keys, ask=lambda _name: "secret").public.name == "ada"


def test_files_are_private_and_never_replaced(keys: Path) -> None:
    key = create_key("ada", None, keys)
    assert key.path.stat().st_mode & 0o777 == 0o600
    assert keys.stat().st_mode & 0o777 == 0o700
    before = key.path.read_bytes()
    with pytest.raises(InputError, match="already exists"):
        create_key("ada", None, keys)
    assert key.path.read_bytes() == before


@pytest.mark.parametrize("existing", ["ada", "ada.pub"])
def test_taken_name_leaves_no_other_file_behind(existing: str, keys: Path) -> None:
    keys.mkdir()
    (keys / existing).write_text("of somebody else")
    with pytest.raises(InputError, match=f"{existing} already exists"):
        create_key("ada", None, keys)
    assert [path.name for path in keys.iterdir()] == [existing]
    assert (keys / existing).read_text() == "of somebody else"


def test_key_with_the_public_part_of_another_key_is_refused(keys: Path) -> None:
    for name in ("ada", "eve"):
        create_key(name, None, keys)
    (keys / "ada.pub").write_bytes((keys / "eve.pub").read_bytes())
    with pytest.raises(InputError, match=r"ada\.pub is not the public part of "):
        load_signing_key("ada", keys)
    (keys / "ada.pub").unlink()
    assert load_signing_key("ada", keys).public.name == "ada"


def test_private_key_that_others_can_read_is_refused(keys: Path) -> None:
    key = create_key("ada", None, keys)
    key.path.chmod(0o640)
    with pytest.raises(InputError, match=r"can be read by other users \(mode 0640\)") as refused:
        load_signing_key("ada", keys)
    assert "chmod 600" in refused.value.remedy


def test_variable_may_hold_the_key_itself(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = create_key("ci", None, keys)
    with pytest.raises(InputError, match="AB_SIGNING_KEY is not set"):
        load_signing_key("", keys)
    for text in (key.path.read_text(), str(key.path), "ci"):
        monkeypatch.setenv("AB_SIGNING_KEY", text)
        assert load_signing_key("", keys).public.raw == key.public.raw


@pytest.mark.parametrize("name", ["", "../ada", "a/b", "ada.pub", ".ada", "a" * 65, "a\nb"])
def test_invalid_name_is_refused(name: str, keys: Path) -> None:
    with pytest.raises(InputError, match="key name"):
        create_key(name, None, keys)


def test_other_kinds_of_keys_in_the_folder_are_left_out(keys: Path) -> None:
    create_key("ada", None, keys)
    exchange = X25519PrivateKey.generate()
    pem = serialization.Encoding.PEM
    private = exchange.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (keys / "vault").write_bytes(private)
    (keys / "vault").chmod(0o600)
    public = exchange.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    (keys / "vault.pub").write_bytes(public)
    (keys / "notes.pub").write_text("not a key")
    assert [key.public.name for key in stored_keys(keys)] == ["ada"]
    with pytest.raises(InputError, match="not an Ed25519 key"):
        load_signing_key("vault", keys)
    with pytest.raises(InputError, match=r"ada\.pub is a public key"):
        load_signing_key(str(keys / "ada.pub"), keys)


def test_public_part_alone_cannot_sign(keys: Path) -> None:
    create_key("ada", None, keys).path.unlink()
    assert [key.encrypted for key in stored_keys(keys)] == [None]
    with pytest.raises(InputError, match="only the public part"):
        load_signing_key("ada", keys)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_ssh_keygen_reads_the_key_and_prints_the_same_id(keys: Path) -> None:
    key = create_key("ada", "secret", keys)
    listed = subprocess.run(
        ["ssh-keygen", "-l", "-f", key.path.with_name("ada.pub")], capture_output=True, text=True, check=True
    )
    assert listed.stdout.split()[1] == key.public.key_id
    derived = subprocess.run(
        ["ssh-keygen", "-y", "-P", "secret", "-f", key.path], capture_output=True, text=True, check=True
    )
    assert derived.stdout.split()[:2] == key.public.text.split()


def test_folder_follows_the_environment(tmp_path: Path) -> None:
    assert keys_folder({"AB_KEYS": "/keys", "XDG_CONFIG_HOME": "/x"}) == Path("/keys")
    assert keys_folder({"XDG_CONFIG_HOME": "/x"}) == Path("/x/agentbench/keys")


@pytest.mark.parametrize("text", ["", "ssh-ed25519 AAAA", "ssh-rsa AAAA", "-----BEGIN PUBLIC KEY-----", "{}"])
def test_malformed_public_key_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not a public key"):
        parse_public(text.encode())


def test_commands_create_list_and_show_keys(keys: Path) -> None:
    runner = CliRunner()
    refused = runner.invoke(command, ["new", "ada"])
    assert isinstance(refused.exception, InputError)
    assert not keys.exists()
    assert "No keys" in runner.invoke(command, ["list"]).output
    created = runner.invoke(command, ["new", "ada", "--json"], env={"AB_KEY_PASSPHRASE": "secret"})
    value = json.loads(created.output)
    assert (value["name"], value["encrypted"]) == ("ada", True)
    listed = json.loads(runner.invoke(command, ["list", "--json"]).output)
    assert listed["keys"] == [value]
    shown = runner.invoke(command, ["show", "ada", "--public"]).output
    assert parse_public(shown.encode()) == PublicKey(parse_public(value["public_key"].encode()).raw)
    assert "PRIVATE" not in runner.invoke(command, ["show", "ada"]).output
    assert isinstance(runner.invoke(command, ["show", "bob"]).exception, InputError)
    assert os.environ.get("AB_KEY_PASSPHRASE") is None
