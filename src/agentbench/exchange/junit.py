"""Write a run as JUnit XML, the same as `ab report summary --format junit`."""

from __future__ import annotations

from agentbench.exchange.output_file import output_file
from agentbench.exchange.registry import Written
from agentbench.exchange.source_run import SourceRun
from agentbench.reports.junit import as_junit
from agentbench.reports.summary import summarise


def write(run: SourceRun, out: str) -> Written:
    text = as_junit(summarise(run.run)).encode()
    with output_file(out) as file:
        file.write(text)
    return Written(len(run.run.rows), len(text))
