"""Read, verify, summarise and compare finished runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agentbench.api.exporters import OTHER_EXPORTERS, Exporter
from agentbench.api.report_sections import ReportSection, render_section
from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.record.find_run import find_run
from agentbench.record.schema import AttemptRecord
from agentbench.reports.attempt_table import table_row
from agentbench.reports.sources import Run as RunRecords
from agentbench.reports.sources import Side, run_side
from agentbench.reports.sources import open_run as open_records

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from agentbench.reports.paired import PairedReport
    from agentbench.reports.summary import Summary

Format = Literal["md", "csv", "json"]
TABLES = "pip install 'agentbench-harness[tables]'"


class Run:
    """A finished or running run directory, read when it was opened."""

    def __init__(self, records: RunRecords) -> None:
        self._records = records

    @property
    def path(self) -> Path:
        """The run directory."""
        return self._records.path

    @property
    def run_id(self) -> str:
        return self._records.run_id

    @property
    def suite(self) -> str:
        return self._records.suite

    @property
    def attempts(self) -> tuple[AttemptRecord, ...]:
        """The final record of every attempt."""
        return self._records.finals

    @cached_property
    def headline(self) -> str:
        """The result in one line. It says so if records were altered or attempts are missing."""
        from agentbench.reports.summary import decision  # noqa: PLC0415 - slow import

        return decision(self._summary)

    @property
    def altered(self) -> tuple[str, ...]:
        """Records that differ from their seals. `verify` compares everything else too."""
        return tuple(map(str, self._records.altered))

    def report(self, form: Format = "md", *, sections: Sequence[str | ReportSection] = ()) -> str:
        """Return the summary that `ab report summary` prints. `sections` are added to it, except to CSV.

        Raises:
            InputError: a section is unknown or failed.
        """
        import json  # noqa: PLC0415

        from agentbench.reports import summary_data, summary_markdown  # noqa: PLC0415

        added = [render_section(section, self) for section in sections]
        if form == "json":
            return (
                json.dumps({**summary_data.as_json(self._summary), **({"sections": added} if added else {})}, indent=2)
                + "\n"
            )
        if form == "csv":
            return summary_data.as_csv(self._summary)
        return "\n".join([summary_markdown.as_markdown(self._summary), *added])

    def export(self, exporter: str | Exporter, out: str | os.PathLike[str]) -> None:
        """Write the run in another format: `exporter` is a function, or a name as in `ab export-run --format`.

        Raises:
            InputError: there is no such exporter, or it failed, or the run was altered or has no attempts.
        """
        if exporter == "bundle":
            self._write_bundle(Path(out))
            return
        from agentbench.exchange.source_run import open_source  # noqa: PLC0415 - slow import

        source = open_source(self.path)
        if isinstance(exporter, str) and not OTHER_EXPORTERS.has(exporter):
            from agentbench.exchange.registry import find_exporter  # noqa: PLC0415 - slow import

            find_exporter(exporter).write(source, os.fspath(out))
            return
        function = OTHER_EXPORTERS.get(exporter) if isinstance(exporter, str) else exporter
        with OTHER_EXPORTERS.calling(exporter if isinstance(exporter, str) else getattr(exporter, "__name__", "")):
            function(self, Path(out))

    def _write_bundle(self, out: Path) -> None:
        from agentbench.record.bundle import write_bundle  # noqa: PLC0415 - slow import

        problems = self.verify()
        if problems:
            raise InputError(f"{self.path} does not verify: {problems[0]}")
        write_bundle(self.path, out)

    def verify(self) -> list[str]:
        """Recompute every digest and verdict of the run, as `ab verify` does, and return the problems.

        Examples:
            >>> import agentbench as ab
            >>> task = ab.load_task(ab.load_suite("demo").folder / "toy-median")
            >>> result = ab.run(task, agent="noop", out="runs")
            >>> result.runs[0].verify()
            []
        """
        from agentbench.reports.run_audit import audit_run  # noqa: PLC0415 - slow import

        return list(map(str, audit_run(self.path).problems))

    def rows(self) -> list[dict[str, Json]]:
        """Return one flat row per attempt, with the columns of `ab query`.

        `altered` says whether the record differs from its seal; it is None without one. What belongs to no row, such as a
        record that was removed, is in `Run.altered`.
        """
        return [
            {**table_row(self.path.name, self._records.meta, attempt), "altered": self._altered(attempt.attempt_id)}
            for attempt in self.attempts
        ]

    def _altered(self, attempt_id: str) -> bool | None:
        if self._records.alteration(attempt_id):
            return True
        return None if attempt_id in self._records.unsealed else False

    def to_pandas(self) -> pd.DataFrame:
        """Return the attempts as a pandas data frame."""
        with _optional("pandas"):
            import pandas as pd  # noqa: PLC0415
        return pd.DataFrame(self.rows())

    def to_polars(self) -> pl.DataFrame:
        """Return the attempts as a polars data frame."""
        with _optional("polars"):
            import polars as pl  # noqa: PLC0415
        return pl.DataFrame(self.rows(), infer_schema_length=None)

    def to_arrow(self) -> pa.Table:
        """Return the attempts as an Arrow table."""
        with _optional("pyarrow"):
            import pyarrow as pa  # noqa: PLC0415
        return pa.Table.from_pylist(self.rows())

    @cached_property
    def _summary(self) -> Summary:
        from agentbench.reports.summary import summarise  # noqa: PLC0415 - slow import

        return summarise(self._records)

    def _side(self) -> Side:
        return run_side(self._records)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {len(self._records.rows)} attempts)"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A paired comparison of two runs on their common tasks."""

    headline: str
    """The decision at 0.05, two-sided, with its interval and p-value."""
    better: Literal["A", "B"] | None
    """The side that is significantly better, if one is."""
    tasks: int
    rate_a: float
    rate_b: float
    difference: float
    """Rate of B minus rate of A, from -1 to 1."""
    interval: tuple[float, float] | None
    """95% confidence interval of the difference."""
    p_value: float | None
    differing_tasks: tuple[str, ...]
    """Tasks with different results, the largest difference first."""
    notes: tuple[str, ...]
    _report: PairedReport

    def report(self, form: Format = "md") -> str:
        """Return what `ab report paired` prints."""
        import json  # noqa: PLC0415

        from agentbench.reports import paired_data, paired_markdown  # noqa: PLC0415

        if form == "json":
            return json.dumps(paired_data.as_json(self._report), indent=2) + "\n"
        return paired_data.as_csv(self._report) if form == "csv" else paired_markdown.as_markdown(self._report)


def open_run(run: str | os.PathLike[str]) -> Run:
    """Open a run by its path, its id, a unique prefix of its name, or as `latest`.

    Raises:
        InputError: no run matches, several do, or a record cannot be read.

    Examples:
        >>> import agentbench as ab
        >>> ab.open_run("no-such-run")
        Traceback (most recent call last):
        ...
        agentbench.core.errors.InputError: no run 'no-such-run' in artifacts/runs
    """
    return Run(open_records(find_run(os.fspath(run))))


def compare(
    a: Run | str | os.PathLike[str],
    b: Run | str | os.PathLike[str],
    *,
    rate: Literal["contract", "acceptance"] = "contract",
    method: Literal["mcnemar", "bootstrap"] = "mcnemar",
) -> Comparison:
    """Compare two runs on their common tasks, as `ab report paired` does.

    Raises:
        InputError: they have no task in common, are the same run, or their contracts differ.

    Examples:
        >>> import agentbench as ab
        >>> task = ab.load_suite("demo").tasks[-1]
        >>> runs = [ab.run(task, agent=agent, out="runs").runs[0] for agent in ("noop", "reference")]
        >>> comparison = ab.compare(*runs)
        >>> comparison.difference, comparison.better  # one task cannot be significant
        (1.0, None)
    """
    from agentbench.reports.paired import compare_sides  # noqa: PLC0415 - slow import
    from agentbench.reports.paired_decision import decision  # noqa: PLC0415
    from agentbench.reports.sources import refuse_same_results  # noqa: PLC0415
    from agentbench.statistics.paired import Method  # noqa: PLC0415
    from agentbench.statistics.trials import Rate  # noqa: PLC0415

    sides = [(side if isinstance(side, Run) else open_run(side))._side() for side in (a, b)]  # noqa: SLF001 - same module
    refuse_same_results(*sides)
    report = compare_sides(*sides, rate=Rate(rate), method=Method(method))
    comparison, interval = report.comparison, report.interval
    return Comparison(
        headline=decision(report),
        better=report.better,  # type: ignore[arg-type]
        tasks=len(comparison.pairing.pairs),
        rate_a=comparison.share_a,
        rate_b=comparison.share_b,
        difference=comparison.difference,
        interval=None if interval is None else (interval.low, interval.high),
        p_value=report.adjusted.adjusted_p if report.adjusted else comparison.p_value,
        differing_tasks=tuple(flip.task for flip in report.flips),
        notes=tuple(comparison.notes),
        _report=report,
    )


@contextmanager
def _optional(library: str) -> Iterator[None]:
    """Import a library for tables.

    Raises:
        InputError: it is not installed.
    """
    try:
        yield
    except ImportError:
        raise InputError(f"{library} is not installed: {TABLES}") from None
