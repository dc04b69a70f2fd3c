"""`ab export-run`: write a run for others: a bundle to verify, or a file in the format of another tool."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click

from agentbench.cli.options import RUN, json_option

BUNDLE = "bundle"
EPILOG = """\b
Examples:
  ab export-run latest --out run.tar.zst
  ab export-run RUN --out run.tar.zst --public --sign ada
  ab export-run RUN --format inspect --out run.eval
  ab export-run RUN --format otel --out http://127.0.0.1:4318
  ab verify run.tar.zst --signed-by trust.yaml

A bundle is written only of a run that verifies, other formats only of one whose records and evidence match their seals. A
bundle has all files of the run, also those that are readable only by their owner. With --public it has minimal evidence
(records, hash chains, manifests, graded patches, see `ab retain`), is searched for secrets, and is signed; the run itself stays
as it is. A public bundle still contains what the agent and its tools wrote in events, redacted.

\b
Formats:
  bundle    all files of the run, to verify and look at with `ab`
  inspect   log of Inspect AI (.eval or .json)
  atif      trajectories of Harbor (a folder, one file per attempt)
  otel      OpenTelemetry traces (OTLP JSON lines, or the address of an OTLP/HTTP receiver)
  parquet   table of attempts (.parquet; needs the extra `tables`)
  junit     JUnit XML
  swebench  predictions (.jsonl) or report (.json) of SWE-bench
  NAME      exporter of an installed plug-in (see `ab plugins`)

Formats other than a bundle contain the final attempts with the text that the evidence has: redacted, or digests only.
"""


@click.command(epilog=EPILOG)
@click.argument("run", type=RUN)
@click.option("--out", required=True, metavar="FILE", help="File, folder or address to write to.")
@click.option("--format", "form", default=BUNDLE, show_default=True, metavar="FORMAT", help="Format; see below.")
@click.option("--public", is_flag=True, help="Minimal evidence, searched for secrets, signed (bundle).")
@click.option("--sign", "key", default="", metavar="KEY", help="Key for --public [default: $AB_SIGNING_KEY].")
@click.option("--allow-findings", is_flag=True, help="Export although the search found possible secrets (--public).")
@json_option
def command(run: Path, *, out: str, form: str, public: bool, key: str, allow_findings: bool, as_json: bool) -> None:
    """Write a run for others: a bundle to verify, or a file in the format of another tool."""
    from agentbench.core.errors import InputError

    if (key or allow_findings) and not public:
        raise click.UsageError("--sign and --allow-findings need --public; sign a run with `ab sign`.")
    if public and form != BUNDLE:
        raise click.UsageError("--public needs --format bundle.")
    is_address = out.startswith(("http://", "https://"))
    if re.fullmatch(r"[\w.-]+:\d+(/.*)?", out) and not Path(out).exists():
        raise InputError(
            f"--out {out} is an address without a scheme", remedy=f"write http://{out}, or ./{out} for a file"
        )
    if not is_address and Path(out).resolve().is_relative_to(run.resolve()):
        raise InputError(f"--out {out} is inside the run", remedy="write the export somewhere else")
    if form == BUNDLE:
        _export_bundle(run, Path(out), public=public, key=key, allow_findings=allow_findings, as_json=as_json)
    else:
        _export(run, out, form, as_json=as_json)


def _export(run: Path, out: str, form: str, *, as_json: bool) -> None:
    from agentbench.api.exporters import OTHER_EXPORTERS
    from agentbench.exchange.registry import find_exporter
    from agentbench.exchange.source_run import open_source
    from agentbench.reports.number_format import plural

    source = open_source(run)
    if OTHER_EXPORTERS.has(form):
        _export_with_plugin(run, Path(out), form, as_json=as_json)
        return
    written = find_exporter(form, (BUNDLE, *OTHER_EXPORTERS.names())).write(source, out)
    for note in written.notes:
        click.echo(note, err=True)
    if as_json:
        counts = {"attempts": written.attempts, "files": written.files, "bytes": written.bytes}
        click.echo(
            json.dumps({"out": out, "format": form, "state": source.state, **counts, "notes": list(written.notes)})
        )
    else:
        click.echo(source.run.mark(f"{out}: {plural(written.attempts, 'attempt')}, {written.bytes} bytes"))


def _export_with_plugin(run: Path, out: Path, form: str, *, as_json: bool) -> None:
    from agentbench.api.runs import open_run

    open_run(run).export(form, out)
    click.echo(json.dumps({"out": str(out), "format": form}) if as_json else f"{out}: written as {form}")


def _export_bundle(run: Path, out: Path, *, public: bool, key: str, allow_findings: bool, as_json: bool) -> None:
    import tempfile

    from agentbench.core.errors import InputError
    from agentbench.record.bundle import write_bundle
    from agentbench.reports.run_audit import audit_run

    if out.is_dir():
        raise InputError(f"--out {out} is a folder", remedy="give a file")
    report = audit_run(run)
    if not report.ok:
        raise InputError(f"{run} does not verify: {report.problems[0]}", remedy="run `ab verify` for details")
    if public:
        from agentbench.cli.keys import signing_key
        from agentbench.signing.publish import public_copy, require_no_secrets

        with tempfile.TemporaryDirectory(prefix="agentbench-public-") as folder:
            copy, findings = public_copy(run, Path(folder), signing_key(key))
            if not allow_findings:
                require_no_secrets(findings)
            if findings.skipped_files:
                click.echo(f"{findings.skipped_files} files are too large to be searched for secrets.", err=True)
            files = write_bundle(copy, out)
    else:
        files = write_bundle(run, out)
    size = out.stat().st_size
    if as_json:
        click.echo(json.dumps({"out": str(out), "format": BUNDLE, "public": public, "files": files, "bytes": size}))
    else:
        click.echo(f"{out}: {files} files, {size} bytes")
