"""`ab report`: summarise or compare finished runs, and estimate the power of planned comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import FILE, RUN, RUN_OR_BUNDLE, format_option, given_path, json_option

if TYPE_CHECKING:
    from agentbench.reports.compare import CompareReport
    from agentbench.reports.gate import GateVerdict
    from agentbench.reports.leaderboard import Candidate
    from agentbench.reports.paired import PairedReport
    from agentbench.reports.sources import Run
    from agentbench.reports.summary import Summary

GROUP_EPILOG = """\b
Examples:
  ab report summary latest
  ab report paired RUN_A RUN_B
  ab report compare RUN_A RUN_B RUN_C
  ab report leaderboard artifacts/runs/* --signed-by trust.yaml
"""
SUMMARY_EPILOG = """\b
Examples:
  ab report summary latest
  ab report summary artifacts/runs/2026-…__demo__baseline__none
  ab report summary RUN --format html --out report/
  ab report summary RUN --format junit > junit.xml
  ab report summary RUN --format csv > results.csv

With --format html, several runs become one page. `ab report paired` can read the CSV output.
"""
PAIRED_EPILOG = """\b
Examples:
  ab report paired RUN_A RUN_B
  ab report paired RUN_A RUN_B --gate gate.yaml
  ab report paired RUN_A RUN_B --format html --out comparison/
  ab report paired all.csv#baseline all.csv#packer --format json

A and B are runs, or CSV files with the columns task, method, repeat, outcome and optionally cost; outcome is
pass, fail, error, invalid or invalid:CAUSE. The first line is the decision at 0.05 two-sided: by McNemar's mid-p with
one attempt per task, by a sign-flip test over per-task means with repeats, or with --method bootstrap by the bootstrap
interval.
"""
COMPARE_EPILOG = """\b
Examples:
  ab report compare RUN_A RUN_B RUN_C
  ab report compare artifacts/runs/* --plot cost-quality.svg
  ab report compare RUN_A RUN_B RUN_C --format html --out comparison/
  ab report compare all.csv --strengths --json

Arguments are runs, or CSV files as for `ab report paired`; a CSV file stands for all of its methods. Only tasks with a
counted attempt from every method are compared. P-values are adjusted by Holm's method over all pairs at 0.05.
"""
LEADERBOARD_EPILOG = """\b
Examples:
  ab report leaderboard RUN_A RUN_B run-c.tar.zst --signed-by trust.yaml
  ab report leaderboard artifacts/runs/* --signed-by trust.yaml --format html --out leaderboard.html

A run is accepted if it verifies, is signed by a key of the trust file, and has the same tasks and contracts as most of the others.
Rejected runs are listed with the reason, and the exit code is 1.
"""
POWER_EPILOG = """\b
Example:
  ab report power --tasks 60 --repeats 3 --rate-a 0.40 --rate-b 0.50 --correlation 0.5
"""


@click.group("report", epilog=GROUP_EPILOG)
def command() -> None:
    """Summarise or compare finished runs, and estimate the power of planned comparisons."""


@command.command("summary", epilog=SUMMARY_EPILOG)
@click.argument("runs", nargs=-1, type=RUN_OR_BUNDLE)
@click.option("--run", "more_runs", multiple=True, type=RUN_OR_BUNDLE, help="The same as RUNS.")
@format_option("junit")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for --format html [default: RUN/report].")
@click.option(
    "--section",
    "sections",
    multiple=True,
    metavar="NAME",
    help="Add the section of an installed plug-in (with --format md or json); can be repeated.",
)
@json_option
def summary(
    runs: tuple[Path, ...],
    *,
    more_runs: tuple[Path, ...],
    form: str,
    out: Path | None,
    sections: tuple[str, ...],
    as_json: bool,
) -> None:
    """Summarise a run: rates, failure reasons, costs, times and attempts."""
    import gc

    from agentbench.core.errors import InputError
    from agentbench.reports.sources import open_run
    from agentbench.reports.summary import decision, summarise

    form = "json" if as_json else form
    run_dirs = (*runs, *more_runs)
    if not run_dirs:
        raise click.UsageError("Give a run, such as `latest`.")
    if len(run_dirs) > 1 and form != "html":
        msg = f"--format {form} takes only one run; --format html takes several"
        raise InputError(msg, remedy="use `ab report paired` to compare two runs")
    _refuse_out(out, form)
    if sections and form not in {"md", "json"}:
        raise InputError(f"--section cannot be combined with --format {form}", remedy="use --format md or json")
    if form == "html":
        if out is None and given_path(run_dirs[0]) != run_dirs[0]:
            raise InputError("--format html needs --out if the run is a bundle")
        _write_page(list(map(open_run, run_dirs)), None, out)
        return
    # The summary creates no reference cycles; collecting garbage over 100,000 rows would only take time.
    gc_enabled = gc.isenabled()
    gc.disable()
    try:
        if sections:
            from agentbench.api.runs import open_run as open_public_run

            text = open_public_run(run_dirs[0]).report("json" if form == "json" else "md", sections=sections)
        else:
            data = summarise(open_run(run_dirs[0]))
            if form == "csv" and not data.run.rows:
                click.echo(decision(data), err=True)
            text = _summary_text(data, form)
        click.echo(text, nl=False)
    finally:
        if gc_enabled:
            gc.enable()


@command.command("paired", epilog=PAIRED_EPILOG)
@click.argument("sides", nargs=-1, metavar="A B")
@click.option("--run-a", metavar="A", help="The same as A: a run, a CSV file, or FILE.csv#METHOD.")
@click.option("--run-b", metavar="B", help="The same as B.")
@click.option(
    "--method",
    type=click.Choice(["mcnemar", "bootstrap"]),
    default="mcnemar",
    show_default=True,
    help="Method that decides; the report shows both.",
)
@click.option("--rate", type=click.Choice(["contract", "acceptance"]), help="Rate to compare [default: contract].")
@click.option("--gate", "gate_file", type=FILE, help="Gate file; exit 0 if it holds, 1 if it fails, 2 if undecided.")
@click.option("--across-versions", is_flag=True, help="Compare tasks even if their contracts differ.")
@format_option()
@click.option("--out", type=click.Path(path_type=Path), help="Folder for --format html [default: ./comparison].")
@json_option
def paired(
    sides: tuple[str, ...],
    *,
    run_a: str | None,
    run_b: str | None,
    method: str,
    rate: str | None,
    gate_file: Path | None,
    across_versions: bool,
    form: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Compare two methods on the same tasks."""
    from agentbench.cli.settings import runs_folder
    from agentbench.core.errors import InputError
    from agentbench.reports.gate import check_gate, read_gate, undecided
    from agentbench.reports.paired import compare_sides
    from agentbench.reports.sources import open_sides
    from agentbench.statistics.paired import Method
    from agentbench.statistics.trials import Rate

    gate = read_gate(gate_file) if gate_file else None
    if gate and rate and gate.rate != rate:
        raise InputError(f"--rate {rate} conflicts with rate: {gate.rate} in {gate_file}")
    form = "json" if as_json else form
    _refuse_out(out, form)
    chosen = gate.rate if gate else Rate(rate or Rate.CONTRACT)
    # What cannot be opened is a mistake of the user, not an undecided gate.
    a, b = open_sides(*_two_sides(sides, run_a, run_b), runs=runs_folder())
    try:
        report = compare_sides(
            a,
            b,
            rate=chosen,
            across_versions=across_versions,
            method=Method(method),
            margin=gate.non_inferiority.margin if gate and gate.non_inferiority else None,
        )
    except InputError as error:
        if gate:
            # CI systems show the first line of stdout, so it must give the reason.
            click.echo(_undecided_text(undecided(error.message), form), nl=False)
        raise
    verdict = check_gate(gate, report) if gate else None
    if form == "html":
        _write_page([side.run for side in (a, b) if side.run], report, out or Path("comparison"), verdict)
    else:
        click.echo(_paired_text(report, form, verdict), nl=False)
    if verdict and form == "csv":
        click.echo(verdict.line, err=True)
    if verdict and verdict.exit_code:
        raise click.exceptions.Exit(verdict.exit_code)


def _two_sides(sides: tuple[str, ...], run_a: str | None, run_b: str | None) -> tuple[str, str]:
    if run_a is None and run_b is None and len(sides) == 2:
        return sides[0], sides[1]
    if run_a is not None and run_b is not None and not sides:
        return run_a, run_b
    raise click.UsageError("Give two sides: A B, or --run-a A --run-b B.")


@command.command("compare", epilog=COMPARE_EPILOG)
@click.argument("methods", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--rate", type=click.Choice(["contract", "acceptance"]), default="contract", show_default=True, help="Rate."
)
@click.option("--strengths", is_flag=True, help="Also estimate the strength of each method (Bradley-Terry model).")
@click.option("--plot", type=FILE, help="Draw cost against pass rate into this SVG file.")
@click.option("--across-versions", is_flag=True, help="Compare tasks even if their contracts differ.")
@format_option()
@click.option("--out", type=click.Path(path_type=Path), help="Folder for --format html [default: ./comparison].")
@json_option
def compare(
    methods: tuple[str, ...],
    *,
    rate: str,
    strengths: bool,
    plot: Path | None,
    across_versions: bool,
    form: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Compare several methods: rates, pairwise differences, best set, cost against quality."""
    from agentbench.reports import compare_data, compare_markdown
    from agentbench.reports.compare import compare_methods
    from agentbench.reports.cost_quality_plot import cost_quality_svg
    from agentbench.reports.sources import open_methods
    from agentbench.statistics.trials import Rate

    form = "json" if as_json else form
    _refuse_out(out, form)
    result = compare_methods(
        open_methods(methods), rate=Rate(rate), across_versions=across_versions, strengths=strengths
    )
    if plot is not None:
        _write_file(plot, cost_quality_svg(result))
        click.echo(f"plot: {plot}", err=True)
    if form == "html":
        _write_page([line.side.run for line in result.methods if line.side.run], result, out or Path("comparison"))
    elif form == "json":
        click.echo(_json_text(compare_data.as_json(result)), nl=False)
    else:
        click.echo(compare_data.as_csv(result) if form == "csv" else compare_markdown.as_markdown(result), nl=False)


def _write_file(path: Path, text: str) -> None:
    from agentbench.core.errors import InputError

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None


def _candidate(run: Path) -> Candidate:
    """Open a run or a bundle for the leaderboard. A bundle stays open until the command ends."""
    from agentbench.core.errors import AgentBenchError
    from agentbench.record.bundle import open_bundle
    from agentbench.reports.leaderboard import Candidate

    if not run.is_file():
        return Candidate(run, str(run))
    try:
        return Candidate(click.get_current_context().with_resource(open_bundle(run)), str(run))
    except AgentBenchError as error:
        return Candidate(run, str(run), error.message)


@command.command("leaderboard", epilog=LEADERBOARD_EPILOG)
@click.argument("runs", nargs=-1, required=True, type=RUN)
@click.option("--signed-by", required=True, metavar="TRUST", help="Trust file, or a public key.")
@click.option(
    "--rate", type=click.Choice(["contract", "acceptance"]), default="contract", show_default=True, help="Rate."
)
@format_option()
@click.option("--out", type=FILE, help="File for --format html [default: leaderboard.html].")
@json_option
def leaderboard(
    runs: tuple[Path, ...], *, signed_by: str, rate: str, form: str, out: Path | None, as_json: bool
) -> None:
    """Rank signed runs that verify and have the same contracts."""
    from agentbench.reports import leaderboard as report
    from agentbench.signing.keys import keys_folder
    from agentbench.signing.trust import read_trust
    from agentbench.statistics.trials import Rate

    form = "json" if as_json else form
    _refuse_out(out, form)
    candidates = [_candidate(run) for run in runs]
    board = report.make_leaderboard(candidates, read_trust(signed_by, keys_folder()), Rate(rate))
    if form == "html":
        from agentbench.reports.html.leaderboard import leaderboard_page

        path = out or Path("leaderboard.html")
        _write_file(path, leaderboard_page(board))
        click.echo(board.headline())
        click.echo(str(path))
    elif form == "json":
        click.echo(_json_text(report.as_json(board)), nl=False)
    else:
        click.echo(report.as_csv(board) if form == "csv" else report.as_markdown(board), nl=False)
    if board.rejected:
        raise click.exceptions.Exit(1)


@command.command("power", epilog=POWER_EPILOG)
@click.option("--tasks", type=click.IntRange(2, 100_000), required=True, help="Number of tasks.")
@click.option("--repeats", type=click.IntRange(1, 1000), default=1, show_default=True, help="Attempts per task.")
@click.option("--rate-a", type=click.FloatRange(0, 1), required=True, help="Assumed success rate of A.")
@click.option("--rate-b", type=click.FloatRange(0, 1), required=True, help="Assumed success rate of B.")
@click.option(
    "--correlation",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    help="Correlation of attempts at one task; 1 means that all repeats have the same outcome.",
)
@click.option("--seed", type=click.IntRange(0), default=20260307, show_default=True, help="Seed of the simulation.")
@json_option
def power(
    *, tasks: int, repeats: int, rate_a: float, rate_b: float, correlation: float, seed: int, as_json: bool
) -> None:
    """Estimate by simulation how likely a planned comparison is to be significant."""
    from agentbench.core.errors import InputError
    from agentbench.reports.power import as_json as document
    from agentbench.reports.power import as_text, estimate_power
    from agentbench.statistics.power import Design

    try:
        design = Design(tasks, repeats, rate_a, rate_b, correlation)
    except ValueError as error:
        # NaN passes the range checks of the options.
        raise InputError(str(error)) from None
    report = estimate_power(design, seed)
    click.echo(_json_text(document(report)) if as_json else as_text(report), nl=False)


def _refuse_out(out: Path | None, form: str) -> None:
    from agentbench.core.errors import InputError

    if out is not None and form != "html":
        raise InputError(f"--out needs --format html; {form} is printed to stdout")


def _write_page(
    runs: list[Run], report: PairedReport | CompareReport | None, out: Path | None, verdict: GateVerdict | None = None
) -> None:
    from agentbench.core.errors import InputError
    from agentbench.core.text import shell_quoted
    from agentbench.record.naming import PAGES
    from agentbench.reports.html.page import write_page

    folder = out or runs[0].path / PAGES
    if folder.suffix == ".html":
        msg = f"--out {folder}: a page is a folder, with index.html in it"
        raise InputError(msg, remedy=f"use --out {shell_quoted(folder.with_suffix(''))}")
    page = write_page(folder, runs, comparison=report, gate=verdict)
    if verdict:
        click.echo(verdict.line)
    click.echo(str(page))


def _summary_text(data: Summary, form: str) -> str:
    from agentbench.reports import junit, summary_data, summary_markdown

    if form == "json":
        return _json_text(summary_data.as_json(data))
    renderers = {"md": summary_markdown.as_markdown, "csv": summary_data.as_csv, "junit": junit.as_junit}
    return renderers[form](data)


def _paired_text(report: PairedReport, form: str, verdict: GateVerdict | None) -> str:
    from agentbench.reports import paired_data, paired_markdown

    if form == "json":
        return _json_text(paired_data.as_json(report) | ({"gate": verdict.as_json()} if verdict else {}))
    if form == "csv":
        return paired_data.as_csv(report)
    return (f"{verdict.line}\n\n" if verdict else "") + paired_markdown.as_markdown(report)


def _undecided_text(verdict: GateVerdict, form: str) -> str:
    """Render the gate verdict alone, for runs that cannot be compared."""
    if form == "json":
        return _json_text({"gate": verdict.as_json()})
    return "" if form == "csv" else f"{verdict.line}\n"


def _json_text(value: object) -> str:
    import json

    return json.dumps(value, indent=2, allow_nan=False) + "\n"
