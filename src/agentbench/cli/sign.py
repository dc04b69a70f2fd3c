"""`ab sign`: sign finished runs."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import FILE, FOLDER, RUN, json_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from agentbench.signing.keys import SigningKey
    from agentbench.signing.run_signature import PreparedSignature

EPILOG = """\b
Examples:
  ab sign latest --key ada
  ab sign RUN_A RUN_B --key ada --witness ../witness
  ab sign study --key ada        a pilot: all runs with its registration, and its decisions and removals
  AB_SIGNING_KEY="$(cat ci.key)" ab sign RUN

The run is verified first. The signature is RUN/signature.dsse.json: a DSSE envelope around an in-toto statement, which covers
the head of the run's chain and so every file. Check it with `ab verify RUN --signed-by PUBLIC_KEY`. A second key signs the same
statement, made again from the run. If one of several runs cannot be signed, none is. Continuing or retrying the run makes the signature stale; sign again afterwards.
"""


@click.command(epilog=EPILOG)
@click.argument("runs", nargs=-1, required=True, type=RUN)
@click.option("--key", default="", help="Name of a key, or a key file [default: $AB_SIGNING_KEY].")
@click.option("--registration", type=FILE, help="Registration of the study; the signature covers its digest.")
@click.option("--witness", type=FOLDER, help="Also append the run to this log: a folder, or a git repository.")
@json_option
def command(
    runs: tuple[Path, ...], *, key: str, registration: Path | None, witness: Path | None, as_json: bool
) -> None:
    """Sign finished runs or a pilot, so that others can tell whether they were changed."""
    from agentbench.cli.keys import signing_key

    signer = signing_key(key)
    if any(map(_is_pilot, runs)):
        _require_one_pilot(runs, registration)
        signed = sign_pilot(runs[0], signer, witness=witness)
    else:
        registrations = {} if registration is None else dict.fromkeys(runs, registration)
        signed = sign_runs(runs, signer, registrations, witness)
    if as_json:
        click.echo(json.dumps({"signed": signed}, indent=2))
        return
    for run in signed:
        click.echo(f"Signed {run['run_dir']} with {run['name']} ({run['key_id']})")
        click.echo(f"  head {run['head']}")
        if run["also_signed_by"]:
            click.echo(f"  the statement is also signed with {run['also_signed_by']}")
    if _is_pilot(runs[0]):
        click.echo(f"Signed decisions and removals of {runs[0]} with {signer.public.name} ({signer.public.key_id})")


def _is_pilot(path: Path) -> bool:
    from agentbench.pilot.folder import is_pilot

    return is_pilot(path)


def _require_one_pilot(paths: Sequence[Path], registration: Path | None) -> None:
    if len(paths) > 1:
        raise click.UsageError("Sign a pilot alone: give one folder.")
    if registration is not None:
        raise click.UsageError("--registration is for runs; a pilot has its own.")


def sign_pilot(folder: Path, key: SigningKey, witness: Path | None = None) -> list[dict[str, str]]:
    """Sign the runs of a pilot, each with its registration, and then its decisions and removals.

    Raises:
        InputError: the pilot is not frozen, is being changed, or was altered; or see `sign_runs`.
        RecordError: a file cannot be read or written.
    """
    from agentbench.pilot.decisions.log_signature import sign_logs
    from agentbench.pilot.lifecycle.lock import pilot_lock
    from agentbench.pilot.pilot_state import read_unchanged_state

    with pilot_lock(folder):
        state = read_unchanged_state(folder)
        registrations = state.registration_files()
        signed = sign_runs(list(registrations), key, registrations, witness)
        sign_logs(folder, state.registration.registration_id, key)
    return signed


def sign_runs(
    runs: Sequence[Path],
    key: SigningKey,
    registrations: Mapping[Path, Path] = MappingProxyType({}),
    witness: Path | None = None,
) -> list[dict[str, str]]:
    """Sign runs, each with its registration if it has one, append them to the witness log, and describe each signature. If one cannot be signed, none is.

    Raises:
        InputError: a run does not verify, or cannot be signed; or the witness log is broken.
        RecordError: a file cannot be read or written; the message says which runs were signed.
    """
    from agentbench.reports.run_audit import audit_run
    from agentbench.signing.run_signature import prepare_signature
    from agentbench.signing.witness_log import require_sound

    def prepare(run: Path) -> PreparedSignature:
        return prepare_signature(run, registrations.get(run), audit=audit_run)

    runs = _distinct(runs)
    if witness is not None:
        require_sound(witness)
    prepared = [_prepared(run, runs, prepare) for run in runs]
    signed: list[dict[str, str]] = []
    for signature in prepared:
        with _naming_signed(signed):
            file = signature.sign(key)
            if witness is not None:
                _append_to_witness(witness, signature.run, key)
        signed.append(
            {
                "run_dir": str(signature.run),
                "signature": file.name,
                "name": key.public.name,
                "key_id": key.public.key_id,
                "head": signature.head,
                "also_signed_by": signature.other_signers(key),
            }
        )
    return signed


def _distinct(runs: Sequence[Path]) -> list[Path]:
    return list({run.resolve(): run for run in runs}.values())


def _prepared(run: Path, runs: Sequence[Path], prepare: Callable[[Path], PreparedSignature]) -> PreparedSignature:
    """
    Raises:
        InputError: the run cannot be signed. If there are others, the message says that none was signed.
    """
    from agentbench.core.errors import InputError

    try:
        return prepare(run)
    except InputError as error:
        if len(runs) == 1:
            raise
        others = f"none of the {len(runs)} runs was signed"
        raise InputError(error.message, remedy=f"{others}; {error.remedy}" if error.remedy else others) from None


@contextmanager
def _naming_signed(signed: Sequence[Mapping[str, str]]) -> Iterator[None]:
    """Say in an error which runs were signed before it."""
    from agentbench.core.errors import AgentBenchError

    try:
        yield
    except AgentBenchError:
        for run in signed:
            click.echo(f"Signed {run['run_dir']} before the error.", err=True)
        raise


def _append_to_witness(place: Path, run: Path, key: SigningKey) -> None:
    from agentbench.signing.witness_log import witness_run

    entry = witness_run(place, run, key)
    click.echo(f"Entry {entry.seq} of the witness log {place}: {entry.name}", err=True)
