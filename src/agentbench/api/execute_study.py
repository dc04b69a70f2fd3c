"""Carry out a study: make its attempts, write the summaries and close its run directories. `ab run` does so too."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from agentbench.execution.study import Study, StudyResult
from agentbench.record.run_directory import RunDirectory


def execute_study(
    study: Study,
    *,
    closed: Callable[[RunDirectory, bool], None] = lambda _run, _completed: None,
    closing: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> StudyResult:
    """Make the attempts of a study and close its runs, also if it is interrupted.

    `closed` is called for each run with whether it was completed; `closing` is entered while the runs are closed.

    Raises:
        KeyboardInterrupt, RecordError, HarnessError: as `Study.execute`.
    """
    completed = False
    try:
        study.execute()
        completed = True
    finally:
        with closing():
            for run in study.runs.values():
                complete = completed or study.is_complete(run)
                if run.writable:
                    _write_summary(study, run.path)
                    run.close("completed" if complete else "interrupted")
                closed(run, complete)
    return study.result()


def _write_summary(study: Study, run: Path) -> None:
    """Write the summary of a run. One patch has no rates, and loading the statistics is a tenth of its command."""
    if [row.configuration.patch is None for row in study.rows] == [False]:
        from agentbench.reports.single_patch import write_verdict  # noqa: PLC0415

        write_verdict(run)
    else:
        from agentbench.reports.summary_markdown import write_summary  # noqa: PLC0415

        write_summary(run)
