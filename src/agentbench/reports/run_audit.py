"""Verifies a run: hash chains, digests, verdicts and the decision of its stopping rule.

Every command that accepts only runs that verify (`ab verify`, `ab sign`, `ab retain`, `ab export-run`, the leaderboard) uses `audit_run`.
"""

from __future__ import annotations

from pathlib import Path

from agentbench.record.audit import RunReport, verify_run
from agentbench.record.naming import read_run_json
from agentbench.record.recompute import recompute


def audit_run(run: Path, *, expect_head: str | None = None) -> RunReport:
    """Verify a run and its stopping rule."""
    report = verify_run(run, recompute=recompute, expect_head=expect_head)
    if not _may_stop(run, report):
        return report
    from agentbench.reports.stopping_audit import audit_stopping  # noqa: PLC0415 - loading statistics is slow

    return audit_stopping(run, report)


def _may_stop(run: Path, report: RunReport) -> bool:
    """Return whether the run can have a stopping rule. Loading the statistics takes longer than most audits."""
    try:
        return report.decided is not None or b'"stop_when": {' in read_run_json(run)
    except OSError:
        return False
