"""`ab keys`: create and list the keys that sign runs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import json_option, new_passphrase

if TYPE_CHECKING:
    from agentbench.signing.keys import SigningKey, StoredKey

GROUP_EPILOG = """\b
Examples:
  ab keys new ada
  ab keys list
  ab keys show ada --public

Keys are Ed25519 in OpenSSH files, in $AB_KEYS, $XDG_CONFIG_HOME/agentbench/keys or ~/.config/agentbench/keys.
"""
NEW_EPILOG = """\b
Examples:
  ab keys new ada
  AB_KEY_PASSPHRASE=… ab keys new ci
  ab keys new ci --no-passphrase

The passphrase is $AB_KEY_PASSPHRASE, or is asked for. `ssh-keygen -p -f FILE` changes it later.
"""
SHOW_EPILOG = """\b
Examples:
  ab keys show ada
  ab keys show ada --public > ada.pub

The key id is the digest of the public key, as `ssh-keygen -l` prints it.
"""


@click.group("keys", epilog=GROUP_EPILOG)
def command() -> None:
    """Create and list the keys that sign runs."""


@command.command("new", epilog=NEW_EPILOG)
@click.argument("name")
@click.option("--no-passphrase", is_flag=True, help="Do not encrypt the private key; only its file mode protects it.")
@json_option
def new(name: str, *, no_passphrase: bool, as_json: bool) -> None:
    """Create a key pair."""
    from agentbench.signing.keys import create_key, keys_folder

    key = create_key(name, None if no_passphrase else _new_passphrase(), keys_folder())
    if as_json:
        click.echo(json.dumps(_as_json(key), indent=2))
        return
    click.echo(f"Created {key.path} ({_state(key)}) and {key.path.name}.pub")
    click.echo(f"  key id {key.public.key_id}")
    click.echo("Give the public key to those who verify your runs:")
    click.echo(f"  {key.public.text}")


@command.command("list", epilog="\b\nExample:\n  ab keys list")
@json_option
def list_keys(*, as_json: bool) -> None:
    """List the keys of the key folder."""
    from agentbench.signing.keys import keys_folder, stored_keys

    folder = keys_folder()
    keys = stored_keys(folder)
    if as_json:
        click.echo(json.dumps({"folder": str(folder), "keys": [_as_json(key) for key in keys]}, indent=2))
        return
    if not keys:
        click.echo(f"No keys in {folder}. Create one with `ab keys new NAME`.")
        return
    width = max(len(key.public.name) for key in keys)
    for key in keys:
        click.echo(f"{key.public.name:{width}}  {key.public.key_id}  {_state(key)}")


@command.command("show", epilog=SHOW_EPILOG)
@click.argument("name")
@click.option("--public", is_flag=True, help="Print only the public key.")
@json_option
def show(name: str, *, public: bool, as_json: bool) -> None:
    """Show a key. The private key is never printed."""
    from agentbench.signing.keys import find_key, keys_folder

    key = find_key(name, keys_folder())
    if as_json:
        click.echo(json.dumps(_as_json(key), indent=2))
    elif public:
        click.echo(key.public.text)
    else:
        click.echo(f"name         {key.public.name}")
        click.echo(f"key id       {key.public.key_id}")
        click.echo(f"public key   {key.public.text}")
        click.echo(f"private key  {_state(key)}" + ("" if key.encrypted is None else f", {key.path}"))


def signing_key(text: str) -> SigningKey:
    """Load the key that an option names; an empty text means $AB_SIGNING_KEY. A terminal is asked for the passphrase."""
    from agentbench.signing.keys import keys_folder, load_signing_key

    return load_signing_key(text, keys_folder(), _ask if sys.stdin.isatty() else None)


def _ask(name: str) -> str:
    return str(click.prompt(f"Passphrase of {name}", hide_input=True, err=True))


def _new_passphrase() -> str:
    import os

    from agentbench.signing.keys import PASSPHRASE

    return os.environ.get(PASSPHRASE) or new_passphrase(
        "Passphrase of the new key", remedy=f"set {PASSPHRASE}, or pass --no-passphrase to keep the key unencrypted"
    )


def _state(key: StoredKey) -> str:
    states = {None: "not here, only the public key", True: "encrypted", False: "not encrypted"}
    return states[key.encrypted]


def _as_json(key: StoredKey) -> dict[str, object]:
    return {
        "name": key.public.name,
        "key_id": key.public.key_id,
        "public_key": key.public.text,
        "path": str(key.path),
        "private": key.encrypted is not None,
        "encrypted": key.encrypted,
    }
