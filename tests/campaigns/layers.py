"""The layers that stop cheats, and how to switch each of them off for an experiment.

Nothing of this is in the product: a layer is switched off by replacing functions of the harness in this process, or by
appending code to the programs of the runner before they are copied into a sandbox.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from unittest import mock

from agentbench.acceptance import grade as grading
from agentbench.acceptance.checks.pytest import check, decide, runner_bundle
from agentbench.acceptance.grading_context import Acceptance, GradingContext
from agentbench.acceptance.protected import Protection
from agentbench.acceptance.runner.runner_monitor import WATCHED_PACKAGES
from agentbench.core.reasons import Outcome

RESULTS = "results"
"""Required tests that do not pass, a run that does not finish, or a patch that does not apply or build."""
RULES = {
    "passes_false_tests": "decoys",
    "canary": "canaries",
    "watched_run": "audit_hook",
    "forged_results": RESULTS,
    "build_changed_runner": "build",
    "build_changed_dependency": "build",
    "protected_restored": "protection",
    "protected_dropped": "protection",
    "hidden_overwritten": "protection",
    "runner_changed": "",  # by what changed
}
"""Layers by rule of a finding. Every other rule belongs to the inspection of the patch."""
CHANGES = (
    *(("hook ", "monitor"), (" comes from ", "modules"), (" was loaded by ", "modules"), ("harness runner: ", "guard")),
    *(("report of ", "calls"), (" inside ", "calls")),
)
"""Layers by words in a change that the runner reports. Every other change is the monitor's."""


RULES_OF_CHANGES = (
    *((words, "attributes of pytest's objects") for words in ("attributes of ", "calls of hook ")),
    *(("hook ", "hooks of pytest"), ("test item ", "collected tests"), (" lost rows", "tables of test modules")),
    *((" comes from ", "file of a helper"), (" was loaded by ", "loader of a test module")),
    ("sys.modules.", "modules of pytest and the standard library"),
    *(("report of ", "call that returned"), (" inside ", "call inside a call")),
    *((f"{package}.", "functions and classes of pytest and builtins") for package in WATCHED_PACKAGES),
)
"""Rules of the runner by words in a change. Every other change is one of a name in a test module."""


def rules_of(events: Iterable[str], changed: Iterable[str]) -> list[str]:
    """Return the rules of the runner by which it reported events and changes."""
    kinds = {
        next(kind for kind in (*decide.DETAILS, decide.LOAD_LIBRARY) if event.startswith(kind)) for event in events
    }
    return sorted(kinds | {_rule_of(name) for name in changed})


def _rule_of(change: str) -> str:
    return next((rule for words, rule in RULES_OF_CHANGES if words in change), "names in test modules")


@dataclass(frozen=True, slots=True)
class Layer:
    """A mechanism that can be switched off.

    `appended` is code by program of the runner; `patches` are functions of the harness with their replacements.
    """

    purpose: str
    appended: dict[str, str] = field(default_factory=dict)
    patches: tuple[tuple[object, str, Callable[..., object]], ...] = ()
    prevents: bool = False
    """Prevents instead of reporting: whether it matters shows only in a run without it."""
    sources: tuple[str, ...] = ()
    """Patterns of its files below `src/agentbench/acceptance`."""


def _no_protection(context: GradingContext) -> Protection:
    return Protection(generated=context.loaded.task.oracle.generated)


def _nothing(*_: object, **__: object) -> tuple[()]:
    return ()


LAYERS = {
    "inspection": Layer(
        "shows the line; objects equal to everything, frames of callers",
        patches=((grading, "_inspect", _nothing),),
        sources=("inspection/*.py",),
    ),
    "audit_hook": Layer(
        "code that reads, moves or replaces test files, opens or searches memory, loads bytecode in place of source",
        {"audit_hook.py": "HANDLED_EVENTS = frozenset()\n"},
        sources=("runner/audit_hook.py", "runner/genuine_code.py", "runner/files.py"),
    ),
    "monitor": Layer(
        "replaced functions of pytest, builtins and tests; changed constants of tests",
        {
            "runner_monitor.py": "RunnerMonitor.item_changes = lambda self, item, nodeid: []\n"
            "RunnerMonitor.changes = lambda self, testing=False: []\n"
        },
        sources=("runner/runner_monitor.py",),
    ),
    "modules": Layer(
        "test modules and helpers that product code put in place",
        {"runner_monitor.py": "RunnerMonitor.foreign_modules = lambda self, support: []\n"},
    ),
    "calls": Layer(
        "a test that is reported as passed was called, and its call returned",
        {
            "session.py": "_report = Recorder._report_changes\n"
            "Recorder._report_changes = lambda self, changed: _report(\n"
            "    self, [name for name in changed if not name.startswith(('report of ', 'call of '))]\n"
            ")\n"
        },
    ),
    "guard": Layer(
        "code that interrupts the runner to find its channel, or looks for it in its functions",
        {
            "channel.py": "def seal(function):\n    return function\n",
            "reentrancy_guard.py": "def suspend():\n    return False, []\n",
        },
        prevents=True,
        sources=("runner/reentrancy_guard.py",),
    ),
    "canaries": Layer(
        "forged reports are named as such; every run proves that failures are reported",
        patches=(
            (decide, "forged_canary", lambda *_: ""),
            (decide, "failing_canaries_failed", lambda *_: True),
            (decide, "passing_canary_passed", lambda *_: True),
        ),
    ),
    "decoys": Layer("any way to pass a test without meeting it, known or not", sources=("decoys/*.py",)),
    "protection": Layer(
        "honest patches may change tests without a penalty, and their changes do not count",
        patches=((grading, "protection_of", _no_protection),),
        prevents=True,
        sources=("protected.py",),
    ),
    "build": Layer(
        "a declared build that changes the runner, a dependency, tests or data",
        patches=((check, "changed_environment_findings", _nothing), (check, "changed_file_findings", _nothing)),
        sources=("runner/fingerprint.py", "checks/build_integrity.py", "checks/environment_integrity.py"),
    ),
}

BASE = Layer(
    "exits, skips, shadowed modules, forged files: a pass needs every required test reported as passed",
    sources=tuple(f"runner/{name}.py" for name in ("run", "channel", "finder", "pins", "pytest_plugin", "session")),
)
"""The results of the tests and the pinned start, which cannot be switched off."""


@contextmanager
def switched_off(names: Iterable[str]) -> Iterator[None]:
    """Grade without these layers. Decoys are switched off by the caller, who grades without them."""
    original = runner_bundle._program
    layers = [LAYERS[name] for name in names]

    def program(name: str) -> bytes:
        return original(name) + "".join(layer.appended.get(name, "") for layer in layers).encode()

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(runner_bundle, "_program", program))
        for layer in layers:
            for owner, name, replacement in layer.patches:
                stack.enter_context(mock.patch.object(owner, name, replacement))
        yield


def speakers(result: Acceptance, changed: Iterable[str]) -> set[str]:
    """Return the layers that stopped a patch or would have, each on its own. `changed`: what runs reported."""
    spoke = {RULES.get(finding.rule, "inspection") for finding in result.findings if finding.severity == "gate"}
    spoke.discard("")
    spoke |= {next((layer for words, layer in CHANGES if words in name), "monitor") for name in changed}
    failed = [step.outcome is not Outcome.PASS for step in (result.application, *result.steps)]
    # A check that fails by its findings alone says nothing about its tests.
    failed += [bool(check.decided.failing) for check in result.checks]
    failed += [check.outcome is not Outcome.PASS and not spoke for check in result.checks]
    return spoke | ({RESULTS} if any(failed) else set())
