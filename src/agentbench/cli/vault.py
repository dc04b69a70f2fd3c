"""`ab vault`: the restricted store of originals that a run's evidence does not contain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import FILE, FOLDER, RUN, json_option, new_passphrase, stack

if TYPE_CHECKING:
    from agentbench.execution.originals import Access, Action, EventOriginals, OriginalsReader
    from agentbench.record.schema import AttemptRecord
    from agentbench.trace.events import VaultAccess
    from agentbench.vault.age import Protection, Unlock
    from agentbench.vault.store import RunStore

EPILOG = """\b
Examples:
  ab vault new-key audit.key
  ab run --suite demo --agent reference --vault-recipient age1…
  ab vault get latest --event 12 --key audit.key --reason "incident 42"
  ab vault log latest
  ab vault rotate --all --key old.key --to age1… --reason "yearly rotation"
  ab vault destroy latest --reason "the owner asked" --by ann
  ab vault repair --reason "log deleted, see incident 43"

The store is $AB_VAULT, or the folder .vault beside the run directory.
"""

access_options = stack(
    click.option("--key", type=FILE, help="Key file of a recipient [default: the passphrase in $AB_VAULT_PASSPHRASE]."),
    click.option("--reason", default="", help="Why; recorded in the access log."),
    click.option("--by", "who", help="Who; recorded in the access log [default: your user name]."),
)
vault_option = click.option("--vault", type=FOLDER, help="The store [default: $AB_VAULT, or .vault beside the run].")


@click.group(epilog=EPILOG)
def command() -> None:
    """Read, rotate or destroy originals of redacted text; every access is logged."""


@command.command(name="new-key", epilog=EPILOG)
@click.argument("file", type=FILE)
def new_key(file: Path) -> None:
    """Write a new key to FILE and print its recipient, for --vault-recipient."""
    from agentbench.vault.age import write_identity

    recipient = write_identity(file)
    click.echo(f"Secret key: {file} (only you can read it; without it the originals are lost)", err=True)
    click.echo(recipient)


@command.command(epilog=EPILOG)
@click.argument("run", type=RUN)
@click.option("--task", "task_id", help="The task; needed if the run has several attempts.")
@click.option("--repeat", type=click.IntRange(1), help="The repeat, if the task has several.")
@click.option("--event", type=click.IntRange(1), help="Number of an event in the attempt's log.")
@click.option("--file", "name", help="File of the attempt's folder, e.g. diffs/final.patch.")
@access_options
@vault_option
@json_option
def get(
    *,
    run: Path,
    task_id: str | None,
    repeat: int | None,
    event: int | None,
    name: str | None,
    key: Path | None,
    reason: str,
    who: str | None,
    vault: Path | None,
    as_json: bool,
) -> None:
    """Print the original of an event or a file, after checking it against the digest in the run."""
    from agentbench.core.errors import InputError
    from agentbench.execution.originals import OriginalsReader, refuse, run_store

    if (event is None) == (name is None):
        raise click.UsageError("Give either --event N or --file NAME.")
    access = _access("get", who, reason)
    store = run_store(run, vault)
    originals = OriginalsReader.open(run, store, access, _unlock(store, access, key))
    try:
        record = _attempt(run, task_id, repeat)
    except InputError as error:
        refuse(store, access, error.message, remedy=error.remedy or "")
    if name is not None:
        data = originals.file(record, name)
        click.echo(_file_json(record, name, data) if as_json else data, nl=as_json)
    elif event is not None:
        value = _event_json(event, originals.event(record, event))
        click.echo(json.dumps(value, indent=2, ensure_ascii=as_json))


@command.command(name="log", epilog=EPILOG)
@click.argument("run", type=RUN, required=False)
@vault_option
@json_option
def show_log(run: Path | None, vault: Path | None, as_json: bool) -> None:
    """List every access to the store, or to the originals of one run. Exit 1 if the log was changed."""
    from agentbench.cli.settings import runs_folder
    from agentbench.core.errors import InputError, RecordError
    from agentbench.execution.originals import keeps_originals
    from agentbench.record.find_run import run_id
    from agentbench.trace.events import VaultAccess
    from agentbench.vault.access_log import accesses, head, require_known
    from agentbench.vault.store import store_folder

    folder = vault or store_folder(run.absolute().parent if run else runs_folder())
    if not folder.is_dir():
        raise InputError(f"{folder} does not exist", remedy="name the store with --vault or $AB_VAULT")
    wanted = run_id(run) if run else None
    try:
        last, problem, remedy = head(folder), "", ""
        if run is not None and keeps_originals(run):
            require_known(folder, run_id(run))
        entries = [
            (event.seq, event.payload)
            for event in accesses(folder)
            if isinstance(event.payload, VaultAccess) and wanted in {None, event.payload.run_id}
        ]
    except RecordError as error:
        last, problem, remedy, entries = "", error.message, error.remedy, []
    if as_json:
        rows = [{"number": number, **access.model_dump()} for number, access in entries]
        click.echo(
            json.dumps({"vault": str(folder), "head": last, "altered": problem or None, "accesses": rows}, indent=2)
        )
    elif problem:
        click.echo(f"ALTERED: {problem}\n  {remedy}")
    else:
        click.echo("\n".join([*(_line(number, access) for number, access in entries), f"head {last or 'none'}"]))
    if problem:
        raise click.exceptions.Exit(1)


@command.command(epilog=EPILOG)
@click.argument("run", type=RUN, required=False)
@click.option("--all", "every", is_flag=True, help="Every run in the store.")
@access_options
@click.option("--to", "recipients", multiple=True, help="New recipient; can be repeated.")
@click.option("--to-passphrase", is_flag=True, help="Protect the key with a new passphrase instead (asked for).")
@vault_option
def rotate(
    *,
    run: Path | None,
    every: bool,
    key: Path | None,
    reason: str,
    who: str | None,
    recipients: tuple[str, ...],
    to_passphrase: bool,
    vault: Path | None,
) -> None:
    """Protect the key of a run for other recipients. Old keys no longer open the store; originals stay as they are.

    With --all, runs that the key does not open are skipped. Exit 1 if there are any.
    """
    from agentbench.cli.settings import runs_folder
    from agentbench.core.errors import InputError
    from agentbench.execution.originals import run_store
    from agentbench.vault.store import store_folder, stored_runs

    if (run is None) != every:
        raise click.UsageError("Give either RUN or --all.")
    if bool(recipients) == to_passphrase:
        raise click.UsageError("Give either --to RECIPIENT or --to-passphrase.")
    protection = _protection(recipients)
    access = _access("rotate", who, reason)
    stores = stored_runs(vault or store_folder(runs_folder())) if run is None else [run_store(run, vault)]
    if not stores:
        click.echo("The store has no runs.", err=True)
        return
    unlock = _unlock(stores[0], access, key)
    skipped = 0
    for store in stores:
        try:
            click.echo(f"{_rotate(store, access, unlock, protection)} {store.run_id}")
        except InputError as error:
            if not every:
                raise
            skipped += 1
            click.echo(f"skipped {store.run_id}: {error.message}")
    if skipped:
        click.echo(f"{skipped} of {len(stores)} runs skipped; rotate them with their own key.", err=True)
        raise click.exceptions.Exit(1)


def _rotate(store: RunStore, access: Access, unlock: Unlock, protection: Protection) -> str:
    """Rotate the key of one run, unless that is done already. Return what happened.

    Raises:
        InputError: the access is refused.
    """
    from agentbench.core.errors import RecordError
    from agentbench.execution.originals import check_access, log, refuse
    from agentbench.vault.age import Unreadable, WrongKey

    check_access(store, access)
    try:
        store.identity(unlock)
    except (WrongKey, Unreadable) as error:
        if store.protected_by(protection):
            log(store, access, "refused", why="the key is already protected as requested")
            return "already rotated"
        refuse(store, access, error.message)
    except RecordError as error:
        refuse(store, access, error.message)
    log(store, access, "granted", recipients=protection.recipients)
    store.rotate(unlock, protection)
    return "rotated"


@command.command(epilog=EPILOG)
@click.argument("run", type=RUN)
@click.option("--reason", default="", help="Why; recorded in the access log.")
@click.option("--by", "who", help="Who; recorded in the access log [default: your user name].")
@vault_option
def destroy(run: Path, reason: str, who: str | None, vault: Path | None) -> None:
    """Make the originals of a run unreadable for ever, by deleting their key. The run still verifies."""
    from agentbench.execution.originals import check_access, log, run_store

    access = _access("destroy", who, reason)
    store = run_store(run, vault)
    check_access(store, access)
    log(store, access, "granted")
    store.destroy()
    click.echo(f"Destroyed the originals of {run.name}.", err=True)


@command.command(epilog=EPILOG)
@click.option("--reason", default="", help="Why; recorded in the new access log.")
@click.option("--by", "who", help="Who; recorded in the new access log [default: your user name].")
@vault_option
def repair(reason: str, who: str | None, vault: Path | None) -> None:
    """Set a damaged access log aside and start a new one, which says so. Nothing can be read or destroyed before."""
    from agentbench.cli.settings import runs_folder
    from agentbench.core.errors import InputError
    from agentbench.core.user_name import user_name
    from agentbench.vault.access_log import LOG
    from agentbench.vault.access_log import repair as repair_log
    from agentbench.vault.store import store_folder

    folder = vault or store_folder(runs_folder())
    if not folder.is_dir():
        raise InputError(f"{folder} does not exist", remedy="name the store with --vault or $AB_VAULT")
    name = user_name() if who is None else who
    if not reason.strip() or not name.strip():
        raise InputError("no reason given" if not reason.strip() else "no name given", remedy="give --reason and --by")
    damage = repair_log(folder, who=name, reason=reason)
    click.echo(f"Started a new {folder / LOG}: {damage}." if damage else "Nothing to repair.", err=True)


def open_originals(run: Path, action: Action, key: Path | None) -> OriginalsReader:
    """Open the originals of a run for a command that reads some on the way."""
    from agentbench.execution.originals import OriginalsReader, run_store

    access, store = _access(action, None, f"ab {action}"), run_store(run)
    return OriginalsReader.open(run, store, access, _unlock(store, access, key))


def _access(action: Action, who: str | None, reason: str) -> Access:
    from agentbench.core.user_name import user_name
    from agentbench.execution.originals import Access

    return Access(action, user_name() if who is None else who, reason)


def _unlock(store: RunStore, access: Access, key: Path | None) -> Unlock:
    """Return the secret: a key file, or the passphrase. An access without a reason is refused before that."""
    import os
    import sys

    from agentbench.core.errors import InputError
    from agentbench.execution.evidence import PASSPHRASE
    from agentbench.execution.originals import check_access, refuse
    from agentbench.vault.age import Unlock, read_identities

    check_access(store, access)
    if key is not None:
        try:
            return Unlock(read_identities(key))
        except InputError as error:
            refuse(store, access, error.message, remedy=error.remedy)
    passphrase = os.environ.get(PASSPHRASE) or ""
    if not passphrase and sys.stdin.isatty():
        passphrase = click.prompt("Passphrase of the store", hide_input=True, err=True)
    if not passphrase:
        refuse(store, access, "no key given", remedy=f"give --key FILE, or the passphrase in ${PASSPHRASE}")
    return Unlock(passphrase=passphrase)


def _protection(recipients: tuple[str, ...]) -> Protection:
    from agentbench.vault.age import Protection, check_recipient

    if recipients:
        return Protection(tuple(map(check_recipient, recipients)))
    return Protection(passphrase=new_passphrase("New passphrase", remedy="run the command in a terminal"))


def _attempt(run: Path, task_id: str | None, repeat: int | None) -> AttemptRecord:
    """Return the final record of the attempt that the options name.

    Raises:
        InputError: they name none, or several.
    """
    from agentbench.core.errors import InputError
    from agentbench.record.run_directory import RunDirectory

    records = [
        record
        for record in RunDirectory.open(run).finals()
        if task_id in {None, record.task_id} and repeat in {None, record.repeat}
    ]
    if len(records) == 1:
        return records[0]
    tasks = ", ".join(sorted({record.task_id for record in RunDirectory.open(run).finals()})) or "none"
    problem = "no such attempt" if not records else f"{len(records)} attempts match"
    raise InputError(f"{problem} in {run}", remedy=f"give --task and --repeat; tasks with attempts: {tasks}")


def _shown(data: bytes) -> str | dict[str, str]:
    """Return bytes as text, or as base64 if they are not UTF-8."""
    import base64

    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _file_json(record: AttemptRecord, name: str, data: bytes) -> str:
    value = {"attempt_id": record.attempt_id, "file": name, "bytes": len(data), "content": _shown(data)}
    return json.dumps(value, indent=2)


def _event_json(number: int, originals: EventOriginals) -> dict[str, object]:
    return {
        "event": number,
        "payload": None if originals.payload is None else json.loads(originals.payload),
        "outputs": {digest: _shown(data) for digest, data in originals.outputs.items()},
    }


def _line(number: int, access: VaultAccess) -> str:
    from agentbench.core.text import printable

    what = f" {access.place}" if access.place else ""
    why = f": {access.why}" if access.why else ""
    readers = f", readable for {', '.join(access.recipients)}" if access.recipients else ""
    of_run = f" of {access.run_id}" if access.run_id else ""
    return printable(
        f"{number} {access.at} {access.outcome} {access.action}{what}{of_run} by {access.who} ({access.reason}){readers}{why}"
    )
