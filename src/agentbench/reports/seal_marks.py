"""Marks of results that are not sealed as they are: altered, without a seal, or imported from another tool."""

from __future__ import annotations

from agentbench.core.dataclass import dataclass
from agentbench.reports.number_format import plural

NO_SEAL = "has no seal"
"""Why the record of an attempt without a seal is in doubt."""

COLUMNS = (ALTERED, IMPORTED) = ("altered", "imported")
"""Columns of CSV reports."""


@dataclass(frozen=True, slots=True)
class SealMarks:
    """What the seals of a run say of its results."""

    attempts: int = 0
    altered: tuple[str, ...] = ()
    """What differs from its seal."""
    unsealed: int = 0
    """Number of attempts without a seal."""
    imported: str = ""
    """The tool that made the results; empty for results of this harness."""

    @property
    def doubt(self) -> str:
        """Why the results may not be those that were graded; empty if nothing is in doubt. Imported results never have seals."""
        if self.altered:
            more = f" (and {len(self.altered) - 1} more)" if len(self.altered) > 1 else ""
            return f"{self.altered[0]}{more}"
        if not self.unsealed or self.imported:
            return ""
        return (
            f"{self.unsealed} of {plural(self.attempts, 'attempt')} {'has' if self.unsealed == 1 else 'have'} no seal"
        )

    def mark(self, line: str, name: str = "") -> str:
        """Return the first line of a report with its mark. `name` tells one of several runs."""
        of_run = f" in {name}" if name else ""
        if self.altered:
            return f"ALTERED{of_run}: {self.doubt}, see `ab verify`. {line}"
        if self.imported:
            return f"{line} [{f'{name} ' if name else ''}IMPORTED from {self.imported}, not graded here]"
        if self.unsealed:
            counted = "" if self.unsealed >= self.attempts else f"{self.unsealed} "
            return f"{line} [{counted}NOT SEALED{of_run.upper()}]"
        return line

    def cells(self) -> dict[str, str]:
        """Return the cells of a row that stands for all results."""
        return {ALTERED: self.doubt, IMPORTED: self.imported}
