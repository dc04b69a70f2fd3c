"""Map requirements of docs/protocol.md to the tests that claim them, and decide which requirements are proved.

A test claims requirements with `@pytest.mark.req("C-01")` and says with a second mark how much it shows:

- `end_to_end`: runs `ab`, or a whole attempt in a real sandbox, and reads what a user would read;
- `component`: runs one real part: a sandbox, a server, a parser, a statistic;
- `synthetic`: decides over invented events or records.

A compound requirement has parts (`R-02a`, `R-02b`), and tests claim the parts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Literal

PROTOCOL = Path(__file__).parents[2] / "docs" / "protocol.md"
KNOWN_GAPS = Path(__file__).parent / "known_gaps.json"
"""Requirements and parts that are not whole yet, by id. Everything else must be."""

Level = Literal["end_to_end", "component", "synthetic"]
Status = Literal["whole", "partly", "missing"]
LEVELS: tuple[Level, ...] = ("end_to_end", "component", "synthetic")
ABOUT_RUNS = frozenset("REMTG")
"""Groups of requirements about runs: only an end-to-end test proves them."""
WORST_FIRST = ("failed", "error", "skipped", "xfailed", "passed")

_LINE = re.compile(r"^(?P<indent>\s*)- \*\*(?P<id>[A-Z]-\d\d[a-z]?)\*\* (?P<title>[^.]+)\.")


@dataclass(frozen=True, slots=True)
class Requirement:
    title: str
    parts: Mapping[str, str] = field(default_factory=dict)
    """Titles of its parts by id; empty if it is claimed as a whole."""


def read_requirements(protocol: Path = PROTOCOL) -> dict[str, Requirement]:
    """Return requirements by id, in the order of the document.

    Raises:
        ValueError: an id occurs twice, a part does not follow its requirement, or there is no requirement.
    """
    requirements: dict[str, Requirement] = {}
    for line in protocol.read_text(encoding="utf-8").splitlines():
        if (match := _LINE.match(line)) is None:
            continue
        whole, part = match["id"][:4], match["id"][4:]
        known = requirements.get(whole)
        if not part and known is None:
            requirements[whole] = Requirement(match["title"])
        elif part and known is not None and match["indent"] and part == chr(ord("a") + len(known.parts)):
            requirements[whole] = Requirement(known.title, {**known.parts, match["id"]: match["title"]})
        else:
            raise ValueError(f"{protocol.name}: {match['id']} is stated twice or out of order")
    if not requirements:
        raise ValueError(f"{protocol.name} states no requirement (lines of the form `- **C-01** Title. …`)")
    return requirements


def claimable(requirements: Mapping[str, Requirement]) -> frozenset[str]:
    """Return the ids that tests may claim: parts, and requirements without parts."""
    return frozenset(leaf for whole, requirement in requirements.items() for leaf in requirement.parts or (whole,))


@dataclass
class Proofs:
    """Outcomes and levels of tests, and the tests that claim each requirement."""

    outcomes: dict[str, str] = field(default_factory=dict)
    levels: dict[str, Level] = field(default_factory=dict)
    claims: dict[str, set[str]] = field(default_factory=dict)

    def add(self, test: str, ids: Iterable[str], level: Level, outcome: str = "passed") -> None:
        before = self.outcomes.get(test, "passed")
        self.outcomes[test] = min(before, outcome, key=WORST_FIRST.index)
        self.levels[test] = level
        for requirement in ids:
            self.claims.setdefault(requirement, set()).add(test)

    def status_of(self, leaf: str) -> Status:
        """Return the status of a part, or of a requirement without parts."""
        tests = self.claims.get(leaf, set())
        if not tests:
            return "missing"
        if any(self.outcomes[test] in {"failed", "error"} for test in tests):
            return "partly"
        shown = {self.levels[test] for test in tests if self.outcomes[test] == "passed"}
        accepted = {"end_to_end"} if leaf[0] in ABOUT_RUNS else {"end_to_end", "component"}
        return "whole" if shown & accepted else "partly"

    def overall(self, whole: str, requirement: Requirement) -> Status:
        """Return the status of a requirement with all its parts."""
        statuses = {self.status_of(leaf) for leaf in requirement.parts or (whole,)}
        return statuses.pop() if len(statuses) == 1 else "partly"

    def gaps(self, requirements: Mapping[str, Requirement]) -> dict[str, Status]:
        """Return what is not whole, by the id of the part or requirement."""
        statuses = {leaf: self.status_of(leaf) for leaf in sorted(claimable(requirements))}
        return {leaf: status for leaf, status in statuses.items() if status != "whole"}

    def as_json(self, requirements: Mapping[str, Requirement]) -> str:
        rows = [
            {
                "id": whole,
                "title": requirement.title,
                "status": self.overall(whole, requirement),
                "parts": [
                    {"id": leaf, "title": title, "status": self.status_of(leaf), "tests": self._tests(leaf)}
                    for leaf, title in (requirement.parts or {whole: requirement.title}).items()
                ],
            }
            for whole, requirement in requirements.items()
        ]
        return json.dumps({"requirements": rows}, indent=1, ensure_ascii=False) + "\n"

    def _tests(self, leaf: str) -> list[dict[str, str]]:
        tests = sorted(self.claims.get(leaf, ()))
        return [{"id": test, "level": self.levels[test], "outcome": self.outcomes[test]} for test in tests]

    def as_table(self, requirements: Mapping[str, Requirement]) -> list[str]:
        lines = []
        for whole, requirement in requirements.items():
            lines.append(f"{whole:<7}{self.overall(whole, requirement):<9}{requirement.title}")
            for part, title in requirement.parts.items():
                lines.append(f"  {part:<7}{self.status_of(part):<9}{title}")
                lines += self._rows(part)
            if not requirement.parts:
                lines += self._rows(whole)
        counts = [self.overall(whole, requirement) for whole, requirement in requirements.items()]
        summary = ", ".join(f"{counts.count(status)} {status}" for status in ("whole", "partly", "missing"))
        return [*lines, "", f"{len(requirements)} requirements: {summary}"]

    def _rows(self, leaf: str) -> Iterator[str]:
        """Yield one line per test function with its worst outcome and number of cases."""
        for name, cases in groupby(sorted(self.claims.get(leaf, ())), key=lambda test: test.split("[")[0]):
            tests = list(cases)
            outcome = min((self.outcomes[test] for test in tests), key=WORST_FIRST.index)
            count = f" ({len(tests)} cases)" if len(tests) > 1 else ""
            yield f"{'':11}{outcome:<8}{self.levels[tests[0]]:<11}{name}{count}"
