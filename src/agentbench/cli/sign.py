"""`ab sign`: sign finished runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import FILE, FOLDER, RUN, json_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentbench.signing.keys import SigningKey

EPILOG = """\b
Examples:
  ab sign latest --key ada
  ab sign RUN_A RUN_B --key ada --witness ../witness
  AB_SIGNING_KEY="$(cat ci.key)" ab sign RUN

The run is verified first. The signature is RUN/signature.dsse.json: a DSSE envelope around an in-toto statement, which covers
the head of the run's chain and so every file. Check it with `ab verify RUN --signed-by PUBLIC_KEY`. A second key signs the same
statement. Continuing or retrying the run makes the signature stale; sign again afterwards.
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
    """Sign finished runs, so that others can tell whether they were changed."""
    from agentbench.cli.keys import signing_key

    signer = signing_key(key)
    signed = sign_runs(runs, signer, registration=registration)
    if witness is not None:
        _append_to_witness(witness, runs, signer)
    if as_json:
        click.echo(json.dumps({"signed": signed}, indent=2))
        return
    for run in signed:
        click.echo(f"Signed {run['run_dir']} with {run['name']} ({run['key_id']})")
        click.echo(f"  head {run['head']}")


def sign_runs(runs: Sequence[Path], key: SigningKey, registration: Path | None = None) -> list[dict[str, str]]:
    """Sign runs and describe each signature."""
    from agentbench.record.attempt_folder import EVENTS
    from agentbench.reports.run_audit import audit_run
    from agentbench.signing.run_signature import sign_run
    from agentbench.trace.log import tail

    signed = []
    for run in runs:
        file = sign_run(run, key, registration, audit=audit_run)
        signed.append(
            {
                "run_dir": str(run),
                "signature": file.name,
                "name": key.public.name,
                "key_id": key.public.key_id,
                "head": tail(run / EVENTS).head,
            }
        )
    return signed


def _append_to_witness(place: Path, runs: Sequence[Path], key: SigningKey) -> None:
    from agentbench.signing.witness import witness_run

    for run in runs:
        entry = witness_run(place, run, key)
        click.echo(f"Entry {entry.seq} of the witness log {place}: {entry.name}", err=True)
