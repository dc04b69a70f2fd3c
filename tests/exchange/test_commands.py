"""`ab export-run` and `ab import-run` as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agentbench.cli import export_run, import_run, retry
from agentbench.cli import run as run_command
from agentbench.core.errors import InputError
from agentbench.core.reasons import Outcome
from agentbench.exchange.registry import exporters, importers
from agentbench.reports.run_list import list_runs
from tests.exchange.sample_runs import sample_run
from tests.reports.runs import record, run_dir

pytestmark = pytest.mark.component


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_run(tmp_path_factory.mktemp("run"), (Outcome.PASS,))


def export(run: Path, *arguments: str | Path) -> Result:
    return CliRunner().invoke(export_run.command, [str(run), *map(str, arguments)])


def test_export_and_import_report_what_they_wrote(run: Path, tmp_path: Path) -> None:
    log = tmp_path / "x.eval"
    done = export(run, "--format", "inspect", "--out", log, "--json")
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    assert (value["format"], value["attempts"], value["bytes"]) == ("inspect", 1, log.stat().st_size)
    imported = CliRunner().invoke(import_run.command, [str(log), "--out", str(tmp_path / "runs"), "--json"])
    assert imported.exit_code == 0, imported.output
    value = json.loads(imported.stdout)
    assert (value["format"], value["attempts"], value["passed"], value["invalid"]) == ("inspect", 1, 1, 0)
    assert (Path(value["run_dir"]) / "run.json").is_file()
    (entry,) = list_runs(tmp_path / "runs")
    assert (entry.state, entry.attempts, entry.passed) == ("imported", 1, 1)
    for command, arguments in ((run_command.command, ["--resume"]), (retry.command, [])):
        done = CliRunner().invoke(command, [*arguments, value["run_dir"]])
        assert isinstance(done.exception, InputError)
        assert "was imported from another tool, so it cannot be resumed" in done.exception.message


def test_import_counts_a_safety_stop_as_not_passed(tmp_path: Path) -> None:
    kinds = ("pass", "safety", "harness")
    folder = run_dir(tmp_path / "run", [record(f"t{n}", kind) for n, kind in enumerate(kinds)])
    done = export(folder, "--format", "inspect", "--out", tmp_path / "x.eval")
    assert "error instead of a score: 1 attempt outside the contract rate" in done.stderr
    done = CliRunner().invoke(import_run.command, [str(tmp_path / "x.eval"), "--out", str(tmp_path / "runs")])
    assert done.stdout.splitlines()[0] == "Imported from inspect: 1 of 2 attempts passed, 1 invalid and in no rate"


def test_help_lists_every_format(run: Path) -> None:
    assert all(f"\n  {name} " in export_run.EPILOG for name in ("bundle", *exporters()))
    assert all(f"\n  {name} " in import_run.EPILOG for name in importers())


def test_options_of_bundles_are_refused_for_other_formats(run: Path, tmp_path: Path) -> None:
    done = export(run, "--format", "junit", "--public", "--out", tmp_path / "x.xml")
    assert (done.exit_code, "--public needs --format bundle" in done.output) == (2, True)


@pytest.mark.parametrize("form, out", [("junit", "inside.xml"), ("bundle", "inside.tar.zst")])
def test_export_into_the_run_is_refused(run: Path, form: str, out: str) -> None:
    done = export(run, "--format", form, "--out", run / out)
    assert isinstance(done.exception, InputError)
    assert "is inside the run" in done.exception.message


def test_unknown_format_is_refused(run: Path, tmp_path: Path) -> None:
    done = export(run, "--format", "pdf", "--out", tmp_path / "x")
    assert isinstance(done.exception, InputError)
    assert "unknown format 'pdf'" in done.exception.message
    assert done.exception.remedy.endswith(f"{', '.join(exporters())}, bundle")


def test_address_without_scheme_is_refused(run: Path, tmp_path: Path) -> None:
    done = export(run, "--format", "otel", "--out", "localhost:4318/v1/traces")
    assert isinstance(done.exception, InputError)
    assert done.exception.message == "--out localhost:4318/v1/traces is an address without a scheme"
