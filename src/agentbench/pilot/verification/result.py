"""The result of verifying a pilot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from agentbench.core.dataclass import dataclass
from agentbench.pilot.decisions.log_signature import LogSignatureCheck
from agentbench.pilot.registration.signature import RegistrationSignatures
from agentbench.record.audit import Decision as AuditDecision
from agentbench.trace.verify import Kind, Problem


@dataclass(slots=True)
class PilotVerification:
    """The result. Start with the first of the `problems`."""

    path: Path
    problems: list[Problem] = field(default_factory=list)
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("registrations", "attempts", "decisions", "removals", "verdicts"), 0)
    )
    registrations: RegistrationSignatures = field(default_factory=RegistrationSignatures)
    """Signatures of the registrations."""
    logs: LogSignatureCheck = field(default_factory=LogSignatureCheck)
    """The signature of decisions and removals."""
    notes: list[str] = field(default_factory=list)
    """Parts that could not be checked."""

    def signature_lines(self) -> list[str]:
        """Describe the signatures of a pilot that verifies, except those of its runs."""
        lines = self.registrations.lines()
        if self.logs.signer:
            lines.append(f"decisions and removals signed by {self.logs.signer}")
        if self.logs.not_checked:
            lines.append("signature of decisions and removals not checked; check it with --signed-by KEY")
        return lines

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def decision(self) -> AuditDecision:
        if self.ok:
            return "verified"
        return "incomplete" if all(problem.kind == "unclosed" for problem in self.problems) else "altered"

    def add(self, kind: Kind, place: str, message: str) -> None:
        self.problems.append(Problem(kind, place, message))


def counts_text(counts: Mapping[str, int]) -> str:
    """Describe what was recomputed."""
    return ", ".join(f"{number} {name[:-1] if number == 1 else name}" for name, number in counts.items())
