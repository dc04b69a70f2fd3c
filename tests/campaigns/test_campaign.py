"""The campaign's variants are valid, and it does not report missed goals as reached."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from agentbench.acceptance.grading_context import (
    Acceptance,
    CheckOutcome,
    CheckResult,
    Finding,
    Severity,
    StepResult,
)
from agentbench.contract.schema import Check
from agentbench.core.reasons import Outcome
from agentbench.tree.entry import Entry, FileWrite, Kind
from tests.campaigns.decisions import PLAIN, RESULTS, Decision, Ledger, goals_reached, summarize, table
from tests.campaigns.honest import (
    BUNDLED_ALTERNATIVES,
    BUNDLED_TASKS,
    REFERENCE,
    REPOSITORY,
    choose_variants,
    decided,
    find_alternatives,
    find_tasks,
    plan_jobs,
)
from tests.campaigns.variants import MAKERS, Work

FILES = {
    b"CHANGES.rst": b"Changes\n",
    b"pyproject.toml": b'[project]\nname = "p"\n\n[tool.pytest.ini_options]\naddopts = "-q"\n',
    b"src/pack/__init__.py": b"",
    b"src/pack/deep/__init__.py": b"",
    b"src/pack/deep/core.py": b"def f( a ):\n    return a\n",
    b"tests/conftest.py": b"import pytest\n",
    b"tests/test_core.py": b"def test_f():\n    assert True\n",
}


class Files:
    def entries(self) -> Iterator[Entry]:
        return (
            Entry(path, Kind.FILE, False, len(text), hashlib.sha256(text).hexdigest())
            for path, text in sorted(FILES.items())
        )

    def read(self, path: bytes, *, max_bytes: int) -> bytes:
        return FILES[path]


FIX = FileWrite(b"src/pack/deep/core.py", b"def f( a ):\n    return a + 1\n")
WORK = Work(Files(), frozenset(FILES), {FIX.path: FIX}, {b"tests/test_core.py": (b"def test_g():\n    pass\n", False)})


@pytest.mark.parametrize("name", MAKERS)
def test_variants_keep_the_fix_and_are_valid_python(name: str) -> None:
    writes = MAKERS[name](WORK)
    assert writes is not None
    assert (name == REFERENCE) == (writes == {FIX.path: FIX})
    fixed = (writes[FIX.path].content or b"").decode()
    assert "a + 1" in fixed
    for path, write in writes.items():
        if path.endswith(b".py"):
            ast.parse(write.content or b"")


def test_new_modules_are_imported_by_their_full_name() -> None:
    writes = MAKERS["adds_module"](WORK) or {}
    assert b"from pack.deep._span_helpers import" in (writes[FIX.path].content or b"")
    assert b"src/pack/deep/_span_helpers.py" in writes


def test_variants_in_turn_cover_all() -> None:
    used = {name for number in range(14) for name in choose_variants("1", number)}
    assert used == {*MAKERS, PLAIN}
    assert all(choose_variants("3", number)[:2] == (REFERENCE, PLAIN) for number in range(5))


def decisions(*results: str, backend: str = "bwrap") -> list[Decision]:
    return [
        Decision("s", f"t{number}", REFERENCE, backend, result, fail_to_pass=4, decoys=3)
        for number, result in enumerate(results)
    ]


@pytest.mark.parametrize("bad", ["rejected", "accused", "error", "differs"])
def test_one_unexpected_result_misses_the_goals(bad: str) -> None:
    assert goals_reached(decisions("accepted", "agrees", "none"))
    assert not goals_reached(decisions("accepted", "agrees", "none", bad))
    assert "goals MISSED" in table(decisions("accepted", bad))[-1]


@pytest.mark.parametrize("results", [(), ("none",), ("agrees",)])
def test_goals_are_missed_without_patches(results: tuple[str, ...]) -> None:
    assert not goals_reached(decisions(*results))


def test_summary_counts_each_backend_and_the_decoys_of_each_task() -> None:
    made = [
        *decisions("accepted", "accused"),
        *decisions("accepted", "error", "none", backend="docker"),
    ]
    summary = summarize(made)
    backends = summary["backends"]
    assert isinstance(backends, dict)
    assert {name: backends["bwrap"]["total"][name] for name in RESULTS} == {
        "accepted": 1, "rejected": 0, "accused": 1, "error": 0,
    }  # fmt: skip
    assert backends["docker"]["suites"]["s"]["patches"] == 2
    assert summary["decoy_coverage"] == {"t0": {"fail_to_pass": 4, "decoys": 3}}
    assert summary["not_as_expected"] == [asdict(made[1]), asdict(made[3])]


def check_result(outcome: Outcome) -> CheckResult:
    check = Check(id="unit", kind="command", command="pytest", parser="pytest")
    return CheckResult(check, CheckOutcome(outcome, "why", f2p_total=4, decoys=3), "2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    "outcome, severity, result",
    [
        (Outcome.PASS, "note", "accepted"),
        (Outcome.PASS, "gate", "accused"),
        (Outcome.PASS, "error", "error"),
        (Outcome.FAIL, "gate", "accused"),
        (Outcome.FAIL, "note", "rejected"),
        (Outcome.ERROR, "note", "error"),
    ],
)
def test_graded_patches_are_accepted_rejected_accused_or_undecided(
    outcome: Outcome, severity: Severity, result: str
) -> None:
    graded = Acceptance(
        StepResult("apply", Outcome.PASS), (), (check_result(outcome),), (Finding("rule", severity, "detail"),)
    )
    made = decided(Decision("s", "t", REFERENCE, "bwrap"), graded, b"diff")
    assert (made.result, made.fail_to_pass, made.decoys) == (result, 4, 3)
    assert (made.patch == "diff") is (result != "accepted")


def test_alternatives_belong_to_bundled_tasks() -> None:
    tasks = {task.id for task in find_tasks(BUNDLED_TASKS)}
    alternatives = find_alternatives([BUNDLED_ALTERNATIVES])
    assert alternatives
    assert alternatives.keys() <= tasks


def test_resumed_plan_contains_only_open_patches() -> None:
    (task,) = find_tasks([REPOSITORY / "tasks/custom-dev/shelfmark-order"])
    (job,) = plan_jobs([task], "unchanged,reformats", "bwrap", {task.id: b"diff"}, {f"{task.id} unchanged"})
    assert (job.variants, job.alternative) == (("reformats", "alternative"), b"diff")
    assert plan_jobs([task], "unchanged", "bwrap", {}, {f"{task.id} unchanged"}) == []


def test_decisions_are_read_back(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "new" / "decisions.jsonl")
    decision = Decision("s", "t", REFERENCE, "bwrap", "accused", gates=({"rule": "x", "severity": "gate"},))
    ledger.put(decision)
    assert Ledger(ledger.path).decisions == {decision.key: decision}
