"""Report sections of plug-ins: functions that add Markdown to the summary of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from agentbench.core.errors import InputError
from agentbench.plugins.extensions import Extensions
from agentbench.plugins.kinds import Kind

if TYPE_CHECKING:
    from agentbench.api.runs import Run


class ReportSection(Protocol):
    r"""Returns a section of a summary as Markdown, with its heading; the plug-in of kind `report_section`.

    The text of records is untrusted: agents and tasks wrote parts of it.

    Examples:
        >>> import agentbench as ab
        >>> def slowest(run: ab.Run) -> str:
        ...     attempt = max(run.attempts, key=lambda attempt: attempt.duration_sec)
        ...     return f"## Slowest attempt\n\n{attempt.task_id}"
        >>> ab.register("report_section", "slowest", slowest)  # or: run.report(sections=[slowest])
    """

    def __call__(self, run: Run, /) -> str: ...


OTHER_SECTIONS: Extensions[ReportSection] = Extensions(Kind.REPORT_SECTION, ())


def render_section(section: str | ReportSection, run: Run) -> str:
    """Return the Markdown of a section.

    Raises:
        InputError: there is no such section, or it failed.
    """
    function = OTHER_SECTIONS.get(section) if isinstance(section, str) else section
    name = section if isinstance(section, str) else getattr(section, "__name__", "section")
    with OTHER_SECTIONS.calling(name):
        text = function(run)
    if not isinstance(text, str):
        raise InputError(f"report section '{name}' returned {type(text).__name__}, not text")
    return text.strip() + "\n"
