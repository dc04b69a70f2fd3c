"""The comment on a pull request: Markdown of bounded size with the verdict first, and annotations for failed tasks.

Names and explanations come from agents and tasks. In Markdown they appear only in code spans, where no mention, link, image or
HTML works; in annotations they are escaped as the runner's commands need it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentbench.core.text import printable
from agentbench.record.headline import headline
from agentbench.record.schema import AttemptRecord
from agentbench.reports.ci_findings import doubts, not_passed, severity
from agentbench.reports.escape import code, markdown_table, plain
from agentbench.reports.gate import GateVerdict
from agentbench.reports.number_format import plural
from agentbench.reports.paired import PairedReport
from agentbench.reports.paired_decision import decision as paired_decision
from agentbench.reports.sources import Run
from agentbench.reports.summary import decision, summarise

MAX_COMMENT = 65_536
"""Characters that GitHub takes; GitLab takes more."""
MAX_ROWS = 200
MAX_WHY = 240
MAX_HEADLINE = 900
ANNOTATIONS = 10
"""Annotations of one kind that GitHub shows per step."""


def marker(key: str) -> str:
    """Return the first line of a comment, by which a later run finds the comment that it replaces."""
    return f"<!-- agentbench: {key} -->"


def comment(run: Run, compared: PairedReport | None, gate: GateVerdict | None, key: str) -> str:
    """Write the comment: verdict, comparison, failed attempts, the rest folded."""
    lines = [marker(key), "", f"### AgentBench: {_headline(_verdict(run, compared, gate))}", ""]
    lines += [f"- {_headline(line)}" for line in _below(run, compared, gate)]
    if gate is not None:
        rows = [(code(item.name), str(item.conclusion), code(item.why, MAX_WHY)) for item in gate.conditions]
        lines += ["", *markdown_table(("condition", "verdict", "why"), rows)]
    if compared is not None and compared.flips:
        rows = [(code(flip.task), f"{flip.mean_a:.0%}", f"{flip.mean_b:.0%}") for flip in compared.flips[:MAX_ROWS]]
        names = (f"A: {code(compared.a.name, 60)}", f"B: {code(compared.b.name, 60)}")
        lines += ["", f"{plural(len(compared.flips), 'task')} with another result:", ""]
        lines += markdown_table(("task", *names), rows)
    lines += _attempts(run.finals)
    return _fitting(lines)


def task_annotations(run: Run, tasks_dir: str) -> Iterator[str]:
    """Yield workflow commands of GitHub Actions for attempts that did not pass. `tasks_dir` has the folders of the suites.

    The first names what was altered in the run, or that it has no seals: without it, a forged pass would leave no trace.
    """
    doubt = doubts(run)
    if doubt:
        yield f"::error title={_property(run.path.name)}::{_data(plain(doubt, MAX_WHY))}"
    failed = not_passed(run.finals)
    shown = ANNOTATIONS - 1 - bool(doubt)
    for record in failed[:shown]:
        kind = severity(record)
        file = _property(f"{tasks_dir}/{record.suite}/{record.task_id}/task.yaml")
        title = _property(f"{record.task_id} · {record.variant}")
        yield f"::{kind} file={file},line=1,title={title}::{_data(plain(headline(record), MAX_WHY))}"
    if len(failed) > shown:
        yield f"::notice ::{plural(len(failed) - shown, 'further attempt')} did not pass"


def _verdict(run: Run, compared: PairedReport | None, gate: GateVerdict | None) -> str:
    if gate is not None:
        return gate.line
    return paired_decision(compared) if compared is not None else decision(summarise(run))


def _below(run: Run, compared: PairedReport | None, gate: GateVerdict | None) -> Iterator[str]:
    """Yield the headlines that the first line does not have."""
    if gate is not None and compared is not None:
        yield paired_decision(compared)
    if gate is not None or compared is not None:
        yield decision(summarise(run))


def _headline(text: str) -> str:
    """Return a headline with its decision in bold and the rest, which contains names, as code."""
    first, colon, rest = text.partition(": ")
    if colon and first.replace(" ", "").isalpha() and first.isupper():
        return f"**{first}**: {code(rest, MAX_HEADLINE)}"
    return code(text, MAX_HEADLINE)


def _attempts(finals: Sequence[AttemptRecord]) -> list[str]:
    failed = not_passed(finals)
    if not failed:
        return ["", "The attempt passed." if len(finals) == 1 else f"All {len(finals)} attempts passed."]
    rows = [(code(record.task_id), code(record.variant, 60), code(headline(record), MAX_WHY)) for record in failed]
    more = [f"… and {len(failed) - MAX_ROWS} more"] if len(failed) > MAX_ROWS else []
    table = markdown_table(("task", "method", "verdict"), rows[:MAX_ROWS])
    summary = f"{len(failed)} of {plural(len(finals), 'attempt')} did not pass"
    return ["", "<details>", f"<summary>{summary}</summary>", "", *table, "", *more, "</details>"]


def _fitting(lines: Sequence[str]) -> str:
    """Join the lines, without those in the middle that do not fit. The last line closes the folded part."""
    note = "\n… truncated; the report page has the rest"
    end = f"\n{lines[-1]}\n" if lines[-1] == "</details>" else "\n"
    body = lines[:-1] if lines[-1] == "</details>" else lines
    text = ""
    for line in body:
        if len(text) + len(line) + len(note) + len(end) + 1 > MAX_COMMENT:
            return text + note + end
        text += line + "\n"
    return text.rstrip("\n") + end


def _data(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
