"""Decisions of the honest campaign: the ledger that keeps them, and the summary of it."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

PLAIN = "plain_pytest"
HEAD = (
    f"{'backend':<9}{'suite':<26}{'tasks':>6}{'patches':>9}{'accepted':>10}{'rejected':>10}{'accused':>9}{'error':>7}"
    f"{'tests compared':>16}{'differ':>8}{'with decoy':>16}"
)
RESULTS = ("accepted", "rejected", "accused", "error")
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision about a patch, or one comparison with plain pytest.

    `result` of a patch: accepted, rejected, accused (a finding of severity `gate`), error (undecided because of the
    harness or the task), or none (the repository has no place for this variant). Of a comparison: agrees or differs.
    """

    suite: str
    task: str
    variant: str
    backend: str
    result: str = "none"
    why: str = ""
    gates: tuple[Mapping[str, object], ...] = ()
    """Findings of severity `gate`, with their lines."""
    notes: int = 0
    tests: int = 0
    fail_to_pass: int = 0
    decoys: int = 0
    """Number of fail-to-pass tests that had a decoy."""
    seconds: float = 0.0
    diagnostics: str = ""
    patch: str = ""
    """Only for patches that were not accepted."""

    @property
    def key(self) -> Key:
        return (self.task, self.variant, self.backend)

    @property
    def as_expected(self) -> bool:
        return self.result in {"accepted", "agrees", "none"}


@dataclass
class Ledger:
    """Decisions on disk, one per line. The last line about a patch counts."""

    path: Path
    decisions: dict[Key, Decision] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        for line in self.path.read_text("utf-8").splitlines() if self.path.exists() else ():
            data = json.loads(line)
            decision = Decision(**{**data, "gates": tuple(data["gates"])})
            self.decisions[decision.key] = decision

    def put(self, decision: Decision) -> None:
        with self._lock:
            self.decisions[decision.key] = decision
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(decision)) + "\n")


def summarize(decisions: Sequence[Decision]) -> dict[str, object]:
    """Return counts per backend and suite, decoy coverage per task, and everything that is not as expected."""
    backends = sorted({decision.backend for decision in decisions})
    return {
        "goals_reached": goals_reached(decisions),
        "backends": {
            backend: {
                "total": _counts([decision for decision in decisions if decision.backend == backend]),
                "suites": {
                    suite: _counts([d for d in decisions if (d.backend, d.suite) == (backend, suite)])
                    for suite in sorted({decision.suite for decision in decisions if decision.backend == backend})
                },
            }
            for backend in backends
        },
        "variants": {
            variant: _counts([decision for decision in decisions if decision.variant == variant])
            for variant in sorted({decision.variant for decision in decisions})
        },
        "decoy_coverage": {
            task: {"fail_to_pass": total, "decoys": decoys}
            for task, (total, decoys) in sorted(_coverage(decisions).items())
        },
        "not_as_expected": [asdict(decision) for decision in decisions if not decision.as_expected],
    }


def goals_reached(decisions: Sequence[Decision]) -> bool:
    """Return whether there are patches, all of them were accepted, and all comparisons agree."""
    patches = any(decision.result in RESULTS for decision in decisions)
    return patches and all(decision.as_expected for decision in decisions)


def table(decisions: Sequence[Decision]) -> list[str]:
    """Return one line per backend and suite, and one in total per backend."""
    lines = [HEAD]
    for backend in sorted({decision.backend for decision in decisions}):
        here = [decision for decision in decisions if decision.backend == backend]
        suites = sorted({decision.suite for decision in here})
        lines += [_line(backend, suite, [decision for decision in here if decision.suite == suite]) for suite in suites]
        lines.append(_line(backend, "total", here))
    result = "reached" if goals_reached(decisions) else "MISSED"
    lines.append(f"goals {result}: every patch accepted, every test agrees with plain pytest")
    return lines


def _line(backend: str, name: str, decisions: Sequence[Decision]) -> str:
    counts = _counts(decisions)
    covered = f"{counts['decoys']} of {counts['fail_to_pass']}"
    return (
        f"{backend:<9}{name:<26}{counts['tasks']:>6}{counts['patches']:>9}{counts['accepted']:>10}{counts['rejected']:>10}"
        f"{counts['accused']:>9}{counts['error']:>7}{counts['tests_compared']:>16}{counts['differ']:>8}{covered:>16}"
    )


def _counts(decisions: Sequence[Decision]) -> dict[str, int]:
    results = Counter(decision.result for decision in decisions)
    coverage = _coverage(decisions).values()
    return {
        "tasks": len({decision.task for decision in decisions}),
        "patches": sum(results[name] for name in RESULTS),
        **{name: results[name] for name in RESULTS},
        "tests_compared": sum(decision.tests for decision in decisions if decision.variant == PLAIN),
        "differ": results["differs"],
        "fail_to_pass": sum(total for total, _ in coverage),
        "decoys": sum(decoys for _, decoys in coverage),
    }


def _coverage(decisions: Sequence[Decision]) -> dict[str, tuple[int, int]]:
    """Return the number of fail-to-pass tests of each task, and how many of them have a decoy."""
    return {
        decision.task: (decision.fail_to_pass, decision.decoys)
        for decision in decisions
        if decision.result == "accepted"
    }
