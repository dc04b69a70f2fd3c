"""The kinds of plug-ins."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Kind(StrEnum):
    """A part of AgentBench that other packages can add to."""

    AGENT = "agent"
    SCORER = "scorer"
    CHECK = "check"
    SANDBOX = "sandbox"
    IMPORTER = "importer"
    EXPORTER = "exporter"
    REPORT_SECTION = "report_section"
    EXECUTOR = "executor"
    MONITOR = "monitor"

    @property
    def group(self) -> str:
        """The entry-point group, such as `agentbench.agents`."""
        return f"agentbench.{_PLURALS.get(self, f'{self}s')}"

    @property
    def words(self) -> str:
        """The kind as part of a sentence."""
        return self.replace("_", " ")


_PLURALS: Mapping[Kind, str] = {Kind.SANDBOX: "sandboxes"}
