"""What a contract lets an agent do: stages, tools, scopes, denied commands, caps."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentbench.contract.schema import DenyCommand, DependencyRules, StageName, Task
from agentbench.policy.budget import Budget
from agentbench.policy.monitors import ContractRules
from agentbench.policy.rule_engine import Limits
from agentbench.policy.thresholds import Thresholds, published_thresholds
from agentbench.tools.output import OutputPolicy
from agentbench.tools.scope import Scope

STAGES: tuple[StageName, ...] = ("inspect", "write", "test")
"""In order of privilege: reading, changing files by patches, running commands."""


@dataclass(frozen=True, slots=True)
class Caps:
    """SessionLimits of the agent phase."""

    budget: Budget = Budget(tool_calls=30, steps_are_calls=True)  # noqa: RUF009 - frozen
    wall_sec: float = 1800.0
    tool_timeout_sec: float = 120.0


@dataclass(frozen=True, slots=True)
class Rules:
    """`tools` empty: all of them."""

    caps: Caps = field(default_factory=Caps)
    stages: tuple[StageName, ...] = STAGES
    tools: tuple[str, ...] = ()
    editable_globs: tuple[str, ...] = ()
    readable_globs: tuple[str, ...] = ()
    allow_write: bool = True
    revert_outside: bool = False
    """What a command changed outside the editable scope is put back; otherwise it is a violation if it stays."""
    deny_commands: tuple[DenyCommand, ...] = ()
    generated: tuple[str, ...] = ()
    test_commands: tuple[str, ...] = ()
    """Command lines known to run the tests, besides those that are recognised."""
    output: OutputPolicy = field(default_factory=OutputPolicy)
    thresholds: Thresholds = field(default_factory=published_thresholds)
    max_installs: int | None = None
    """Installations of dependencies that the contract allows; None: the published threshold."""

    new_dependencies: DependencyRules = field(default_factory=DependencyRules)
    operator: bool = False
    """Somebody can be asked while the attempt waits."""

    @property
    def contract(self) -> ContractRules:
        """What the contract adds to the published monitors."""
        return ContractRules(
            tuple((rule.pattern, rule.severity) for rule in self.deny_commands),
            self.new_dependencies.allow_new,
            self.new_dependencies.severity,
            self.operator,
        )

    @property
    def limits(self) -> Limits:
        """What breakers decide by."""
        return Limits(
            self.caps.budget, int(self.caps.wall_sec * 1_000_000), self.thresholds, self.new_dependencies.max_events
        )

    @property
    def scope(self) -> Scope:
        return Scope(editable=self.editable_globs, readable=self.readable_globs, allow_write=self.allow_write)


def rules_for(task: Task, *, max_steps: int | None = None) -> Rules:
    """The rules of a task; `max_steps` is the resolved value when the command line or a variant gave another.

    Of two limits on the same thing the smaller holds.
    """
    allow_write = task.agent.allow_file_write
    return Rules(
        caps=Caps(
            budget=_budget(task, task.agent.max_steps if max_steps is None else max_steps),
            wall_sec=min(task.environment.timeout_sec, task.budget.wall_sec),
            tool_timeout_sec=task.environment.tool_timeout_sec,
        ),
        stages=tuple(stage for stage in task.policy.stages if allow_write or stage != "write"),
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
        # Nothing to spend is no reason to stop who spends nothing: it is refused where a model is asked.
        tokens=task.budget.tokens or None,
        cost_micro_usd=_spendable(task.budget.usd),
        failed_cycles=None if task.budget.failed_cycles is None else max(task.budget.failed_cycles, 1),
    )


def _spendable(usd: float) -> int | None:
    """What of a cost cap an agent may spend: the rest is kept for acceptance and logging."""
    micro = round(usd * 1_000_000)
    return micro - micro * published_thresholds().headroom_percent // 100 or None


def _test_commands(task: Task) -> tuple[str, ...]:
    known = [task.hints.test_command]
    if task.validation is not None:
        known += [task.validation.failing_command, task.validation.passing_command]
    return tuple(dict.fromkeys(command.strip() for command in known if command))
