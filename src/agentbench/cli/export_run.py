"""`ab export-run`: write a run as one file that others can verify and look at."""

from __future__ import annotations

import json
from pathlib import Path

import click

from agentbench.cli.options import FILE, RUN, json_option

EPILOG = """\b
Examples:
  ab export-run latest --out run.tar.zst
  ab export-run RUN --out run.tar.zst --public --sign ada
  ab verify run.tar.zst --signed-by trust.yaml
  ab show run.tar.zst

Only a run that verifies is exported. A bundle has all files of the run, also those that are readable only by their owner. With
--public it has minimal evidence (records, hash chains, manifests, graded patches, see `ab retain`), is searched for secrets, and is
signed; the run itself stays as it is. A public bundle still contains what the agent and its tools wrote in events, redacted.
"""


@click.command(epilog=EPILOG)
@click.argument("run", type=RUN)
@click.option("--out", type=FILE, required=True, help="File to write.")
@click.option("--format", "form", type=click.Choice(["bundle"]), default="bundle", show_default=True, help="Format.")
@click.option("--public", is_flag=True, help="Minimal evidence, searched for secrets, signed.")
@click.option("--sign", "key", default="", metavar="KEY", help="Key for --public [default: $AB_SIGNING_KEY].")
@click.option("--allow-findings", is_flag=True, help="Export although the search found possible secrets.")
@json_option
def command(run: Path, *, out: Path, form: str, public: bool, key: str, allow_findings: bool, as_json: bool) -> None:
    """Write a run as one file that others can verify and look at."""
    import tempfile

    from agentbench.core.errors import InputError
    from agentbench.record.bundle import write_bundle
    from agentbench.reports.run_audit import audit_run

    if out.resolve().is_relative_to(run.resolve()):
        raise InputError(f"--out {out} is inside the run", remedy="write the bundle somewhere else")
    report = audit_run(run)
    if not report.ok:
        raise InputError(f"{run} does not verify: {report.problems[0]}", remedy="run `ab verify` for details")
    if public:
        from agentbench.cli.keys import signing_key
        from agentbench.signing.publish import public_copy, require_no_secrets

        with tempfile.TemporaryDirectory(prefix="agentbench-public-") as folder:
            copy, found = public_copy(run, Path(folder), signing_key(key))
            if not allow_findings:
                require_no_secrets(found)
            if found.skipped_files:
                click.echo(f"{found.skipped_files} files are too large to be searched for secrets.", err=True)
            files = write_bundle(copy, out)
    elif key or allow_findings:
        raise click.UsageError("--sign and --allow-findings need --public; sign a run with `ab sign`.")
    else:
        files = write_bundle(run, out)
    size = out.stat().st_size
    if as_json:
        click.echo(json.dumps({"out": str(out), "format": form, "public": public, "files": files, "bytes": size}))
    else:
        click.echo(f"{out}: {files} files, {size} bytes")
