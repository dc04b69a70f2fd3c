"""The rules a contract sets for an agent: stages, tools, scopes, denied commands and caps."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import field

from agentbench.contract.schema import DenyCommand, DependencyRules, StageMode, StageName, Task
from agentbench.core.dataclass import dataclass
from agentbench.policy.budget import Budget, CostCap
from agentbench.policy.headroom import spendable
from agentbench.policy.limits import Limits
from agentbench.policy.monitor_rules import ContractRules
from agentbench.policy.prices import MICRO
from agentbench.policy.thresholds import Thresholds, published_thresholds
from agentbench.tools.result import OutputPolicy
from agentbench.tools.stages import STAGES
from agentbench.workspace.diff.compare import Globs


@functools.lru_cache(maxsize=256)
def _globs(patterns: tuple[str, ...]) -> Globs:
    return Globs(patterns)


def matches(patterns: tuple[str, ...], path: bytes) -> bool:
    """Return whether any glob matches. Compiled patterns are cached."""
    return _globs(patterns).match(path)


class Scope:
    """Which paths an agent may read and change, by the contract's globs (gitwildmatch). No globs means all paths."""

    def __init__(
        self, *, editable: tuple[str, ...] = (), readable: tuple[str, ...] = (), allow_write: bool = True
    ) -> None:
        self.editable = editable
        self.readable = readable
        self.allow_write = allow_write

    def may_read(self, path: bytes) -> bool:
        return not self.readable or matches(self.readable, path)

    def may_change(self, path: bytes) -> bool:
        return self.allow_write and (not self.editable or matches(self.editable, path))

    def outside(self, paths: Iterable[bytes]) -> tuple[bytes, ...]:
        """Return the paths that may not be changed."""
        return tuple(path for path in paths if not self.may_change(path))

    def describe(self) -> str:
        if not self.allow_write:
            return "no file may be changed"
        return ", ".join(self.editable) if self.editable else "every file"


@dataclass(frozen=True, slots=True)
class Caps:
    """Caps of the agent phase. Its cost cap is the whole cap until headroom is reserved."""

    budget: Budget = Budget(tool_calls=30, steps_are_calls=True)
    cost: CostCap | None = None
    """The whole cost cap, which messages state."""
    wall_sec: float = 1800.0
    tool_timeout_sec: float = 120.0
    pause_sec: float = 0.0
    """How long the wall clock may stop because a model is unavailable."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one session. An empty `tools` allows all tools."""

    caps: Caps = field(default_factory=Caps)
    stages: tuple[StageName, ...] = STAGES
    stage_mode: StageMode = "auto"
    tools: tuple[str, ...] = ()
    editable_globs: tuple[str, ...] = ()
    readable_globs: tuple[str, ...] = ()
    allow_write: bool = True
    revert_outside: bool = False
    """Revert what a command changes outside the editable scope. Otherwise a change that remains is a violation."""
    deny_commands: tuple[DenyCommand, ...] = ()
    generated: tuple[str, ...] = ()
    test_commands: tuple[str, ...] = ()
    """Command lines known to run the tests, in addition to those recognised by their form."""
    output: OutputPolicy = field(default_factory=OutputPolicy)
    thresholds: Thresholds = field(default_factory=published_thresholds)
    new_dependencies: DependencyRules = field(default_factory=DependencyRules)
    operator: bool = False
    """An operator can be asked while the attempt waits."""
    known_packages: tuple[str, ...] | None = None
    """Python packages that the task knows, once it is prepared."""
    not_applicable: Mapping[str, str] = field(default_factory=dict)
    """Rules and caps that cannot be evaluated for this agent, with the reason."""

    @property
    def contract(self) -> ContractRules:
        """Return the contract's additions to the published monitors."""
        return ContractRules(
            tuple((rule.pattern, rule.severity) for rule in self.deny_commands),
            self.new_dependencies.allow_new,
            self.new_dependencies.severity,
            self.operator,
            read_output=True,
            known_packages=self.known_packages,
        )

    @property
    def limits(self) -> Limits:
        """Return the limits that the breakers use."""
        return Limits(
            self.caps.budget,
            int(self.caps.wall_sec * 1_000_000),
            self.thresholds,
            self.new_dependencies.max_events,
            frozenset(self.not_applicable),
            cost=self.caps.cost,
        )

    @property
    def scope(self) -> Scope:
        return Scope(editable=self.editable_globs, readable=self.readable_globs, allow_write=self.allow_write)


def rules_for(task: Task, *, max_steps: int | None = None) -> Rules:
    """Return the rules of a task. `max_steps` overrides the task's value when the command line or a variant sets it.

    When two limits apply to the same resource, the smaller one counts.
    """
    allow_write = task.agent.allow_file_write
    return Rules(
        caps=Caps(
            budget=_budget(task, task.agent.max_steps if max_steps is None else max_steps),
            wall_sec=min(task.environment.timeout_sec, task.budget.wall_sec),
            tool_timeout_sec=task.environment.tool_timeout_sec,
        ),
        stages=tuple(stage for stage in task.policy.stages if allow_write or stage != "write"),
        stage_mode=task.policy.stage_mode or "auto",
        tools=task.policy.tools,
        editable_globs=task.policy.editable_globs or task.agent.editable_globs,
        readable_globs=task.policy.readable_globs,
        allow_write=allow_write,
        revert_outside=task.policy.outside_editable == "revert",
        deny_commands=task.policy.deny_commands,
        generated=task.oracle.generated,
        test_commands=_test_commands(task),
        new_dependencies=task.policy.dependencies,
    )


def _budget(task: Task, steps: int) -> Budget:
    calls = task.budget.tool_calls
    steps_hold = calls is None or steps <= calls
    return Budget(
        tool_calls=steps if steps_hold else calls,
        steps_are_calls=steps_hold,
        # A cap of 0 tokens does not stop an agent without a model; model requests are refused by the ledger.
        tokens=None if task.budget.tokens is None else max(task.budget.tokens, 1),
        cost_micro_usd=spendable(round(task.budget.usd * MICRO), 0),
        failed_cycles=None if task.budget.failed_cycles is None else max(task.budget.failed_cycles, 1),
    )


def _test_commands(task: Task) -> tuple[str, ...]:
    commands = [task.hints.test_command]
    if task.validation is not None:
        commands += [task.validation.failing_command, task.validation.passing_command]
    return tuple(dict.fromkeys(command.strip() for command in commands if command))
