"""Map requirements of docs/protocol.md to the tests that claim them with `@pytest.mark.req`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

PROTOCOL = Path(__file__).parents[2] / "docs" / "protocol.md"
_LINE = re.compile(r"^- \*\*(?P<id>[A-Z]-\d\d)\*\* (?P<title>[^.]+)\.")

WORST_FIRST = ("failed", "error", "skipped", "xfailed", "passed")
"""A requirement has the worst outcome of its tests."""


def read_requirements(protocol: Path = PROTOCOL) -> dict[str, str]:
    """Return titles by id, in the order of the document.

    Raises:
        ValueError: an id occurs twice, or there are none.
    """
    requirements: dict[str, str] = {}
    for line in protocol.read_text(encoding="utf-8").splitlines():
        if match := _LINE.match(line):
            if match["id"] in requirements:
                raise ValueError(f"{protocol.name} states {match['id']} twice")
            requirements[match["id"]] = match["title"]
    if not requirements:
        raise ValueError(f"{protocol.name} states no requirement (lines of the form `- **C-01** Title. …`)")
    return requirements


@dataclass
class Proofs:
    """Outcomes of tests, and the tests that claim each requirement."""

    outcomes: dict[str, str] = field(default_factory=dict)
    claims: dict[str, set[str]] = field(default_factory=dict)

    def add(self, test: str, ids: Iterable[str], outcome: str) -> None:
        before = self.outcomes.get(test, "passed")
        self.outcomes[test] = min(before, outcome, key=WORST_FIRST.index)
        for requirement in ids:
            self.claims.setdefault(requirement, set()).add(test)

    def result_of(self, requirement: str) -> str:
        tests = self.claims.get(requirement)
        if not tests:
            return "no test"
        return min((self.outcomes[test] for test in tests), key=WORST_FIRST.index)

    def as_json(self, requirements: Mapping[str, str]) -> str:
        rows = [
            {
                "id": requirement,
                "title": title,
                "result": self.result_of(requirement),
                "tests": [
                    {"id": test, "outcome": self.outcomes[test]} for test in sorted(self.claims.get(requirement, ()))
                ],
            }
            for requirement, title in requirements.items()
        ]
        return json.dumps({"requirements": rows}, indent=1, ensure_ascii=False) + "\n"

    def _rows(self, tests: Iterable[str]) -> Iterator[str]:
        """Yield one line per test function with its worst outcome and number of cases."""
        for name, cases in groupby(tests, key=lambda test: test.split("[")[0]):
            outcomes = [self.outcomes[case] for case in cases]
            count = f" ({len(outcomes)} cases)" if len(outcomes) > 1 else ""
            yield f"{'':22}{min(outcomes, key=WORST_FIRST.index):<8} {name}{count}"

    def as_table(self, requirements: Mapping[str, str]) -> list[str]:
        lines = []
        for requirement, title in requirements.items():
            tests = sorted(self.claims.get(requirement, ()))
            lines.append(f"{requirement}  {self.result_of(requirement):<8}  {len(tests):>4}  {title}")
            lines += self._rows(tests)
        proved = sum(self.result_of(requirement) == "passed" for requirement in requirements)
        claimed = sum(requirement in self.claims for requirement in requirements)
        lines.append("")
        lines.append(
            f"{proved} of {len(requirements)} requirements proved, {len(requirements) - claimed} without a test"
        )
        return lines
