"""The schema of `pilot.yaml`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from agentbench.core.protocol import PROTOCOL_SEED
from agentbench.statistics.sequential.rules import MAX_LOOKS
from agentbench.statistics.trials import Rate

STAGES = ("feasibility", "limited", "full")
StageName = Literal["feasibility", "limited", "full"]
AGENTS = ("noop", "reference", "scripted")
"""Bundled agents that a pilot can name without a variant file."""
METHOD_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class SuiteEntry(_Part):
    """A suite whose tasks take part."""

    name: str
    """Name of the suite."""
    tasks_dir: str | None = None
    """Folder of suites, relative to pilot.yaml; the bundled suite `demo` needs none."""
    tasks: tuple[str, ...] = ()
    """Ids or globs of the tasks to take; all without it."""


class MethodEntry(_Part):
    """A method or a baseline. Give exactly one of `variant`, `agent` and `patches`."""

    name: str | None = Field(default=None, pattern=METHOD_NAME)
    """Name in the plan and in reports; by default that of the variant or agent."""
    variant: str | None = None
    """Variant: a name (in `variants/` beside pilot.yaml, in `configs/variants`, or bundled), or a YAML file."""
    agent: Literal["noop", "reference", "scripted"] | None = None
    """A bundled agent without a model."""
    script: str | None = None
    """File or folder of tool calls for the agent `scripted`, relative to pilot.yaml."""
    patches: str | None = None
    """Folder with TASK.patch for every task, for example patches that people wrote; relative to pilot.yaml."""
    minutes: float | None = Field(default=None, ge=0)
    """Minutes of work by people for one attempt, for the cost projection; only with `patches`."""
    model: str | None = None
    """Model of the variant, as with `ab run --model`."""

    _default_name: str = PrivateAttr(default="")

    @property
    def label(self) -> str:
        """The name of the method in the plan."""
        return self.name or self._default_name or self.agent or self.variant or "patches"

    def set_default_name(self, name: str) -> None:
        """Set the name of the variant, which is in the variant's file."""
        self._default_name = name


class FeasibilityStage(_Part):
    tasks_per_stratum: int = Field(default=2, ge=1)
    """Tasks drawn from each stratum."""
    repeats: int = Field(default=1, ge=1, le=1000)
    """Attempts per task and method after this stage."""


class RepeatedStage(_Part):
    repeats: int = Field(ge=1, le=1000)
    """Attempts per task and method after this stage, earlier stages included."""


class Stages(_Part):
    feasibility: FeasibilityStage = FeasibilityStage()
    """A few tasks of each stratum: do harness, limits, records and costs work?"""
    limited: RepeatedStage = RepeatedStage(repeats=1)
    """All tasks, few repeats."""
    full: RepeatedStage = RepeatedStage(repeats=3)
    """All tasks, all planned repeats."""


class Budgets(_Part):
    """Caps in the unit of the price table."""

    total: float = Field(gt=0)
    """All attempts of all stages."""
    task: float = Field(gt=0)
    """All attempts at one task."""
    run: float = Field(gt=0)
    """One attempt. No task may allow more with its own `budget.usd`, which is what is enforced."""


class PowerAssumptions(_Part):
    rates: tuple[float, ...] = Field(default=(0.3, 0.5), min_length=1)
    """Plausible success rates of the weaker method."""
    effect: float = Field(default=0.3, gt=0, le=1)
    """The smallest difference of success rates that matters."""
    correlations: tuple[float, ...] = Field(default=(0.3, 0.6), min_length=1)
    """Plausible correlations between repeats of one task."""
    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    """Significance level."""
    target: float = Field(default=0.8, gt=0, lt=1)
    """Power that the full stage needs in every combination of rates and correlations."""


class Flakes(_Part):
    screen_repeats: int = Field(default=2, ge=2, le=100)
    """How often baseline and reference of each task are checked before the first stage."""
    tolerance: float = Field(default=0.0, ge=0, lt=1)
    """Largest share of tasks with differing outcomes on an unchanged snapshot."""


class FutilityRule(_Part):
    """Stop when the effect of the power assumptions has become unlikely to be found."""

    conditional_power: float = Field(default=0.1, gt=0, lt=1)
    """Probability of a significant result below which the pilot stops."""


class Efficacy(_Part):
    """A rule that may end the full stage early. Its significance level and its effect are those of `power`."""

    rule: Literal["group_sequential", "anytime"]
    """`group_sequential` (a number of planned looks) or `anytime` (a confidence sequence, valid at every look)."""
    looks: int | None = Field(default=None, ge=1, le=MAX_LOOKS)
    """Number of looks, equally spaced over the planned attempts."""
    spending: Literal["obrien_fleming", "pocock"] | None = None
    """Error-spending function of `group_sequential`."""
    futility: FutilityRule | None = None
    """Also stop for futility; only with `group_sequential`."""
    margin: float | None = Field(default=None, gt=0, lt=1)
    """Also stop when the difference is certainly smaller than this."""


class Stopping(_Part):
    safety_attempts: int = Field(default=2, ge=1)
    """Stop when so many attempts of one method violated the boundary of the sandbox or the policy."""
    breaker_attempts: int | None = Field(default=None, ge=1)
    """Stop when so many attempts of one method were ended by a breaker (a loop without progress)."""
    cap_attempts: int | None = Field(default=None, ge=1)
    """Stop when so many attempts of one method reached a cap on cost, tokens, calls or time."""
    efficacy: Efficacy | None = None
    """End the full stage when the comparison of the first two methods is decided."""


class CostPrices(_Part):
    prompt_1m: float = Field(default=3.0, ge=0)
    """Price of a million prompt tokens."""
    completion_1m: float = Field(default=15.0, ge=0)
    """Price of a million completion tokens."""
    exec_hour: float = Field(default=0.5, ge=0)
    """Price of an hour of execution in a sandbox."""
    review_hour: float = Field(default=60.0, ge=0)
    """Price of an hour of a person: of a reviewer, or of who writes the patches of a baseline."""


class CostInputs(_Part):
    """Assumptions about one attempt, from which costs are projected before anything runs."""

    prompt_tokens: int = Field(default=100_000, ge=0)
    """Prompt tokens of an attempt by a method; baselines use no model."""
    completion_tokens: int = Field(default=10_000, ge=0)
    """Completion tokens of an attempt by a method."""
    exec_minutes: float = Field(default=5.0, ge=0)
    """Minutes of sandboxed execution, checks included."""
    review_minutes: float = Field(default=0.0, ge=0)
    """Minutes of human review."""
    overhead: float = Field(default=0.0, ge=0)
    """Fixed cost of an attempt: logs and storage."""
    low: float = Field(default=0.5, gt=0, le=1)
    """Factor of the optimistic scenario."""
    high: float = Field(default=2.0, ge=1)
    """Factor of the pessimistic scenario."""
    prices: CostPrices = CostPrices()
    """Unit costs of the model; they are not the price table that budgets are enforced with."""


class PilotFile(_Part):
    """The content of `pilot.yaml`."""

    question: str = Field(min_length=1)
    """The question that the pilot answers."""
    endpoint: Rate = Rate.CONTRACT
    """Primary endpoint: `contract` (all gates passed) or `acceptance` (all checks passed), within the budget."""
    suites: tuple[SuiteEntry, ...] = Field(min_length=1)
    """Suites whose tasks take part."""
    strata: tuple[str, ...] = ()
    """Keys of `strata` in task.yaml that tasks are stratified by; without any, all tasks are one stratum."""
    methods: tuple[MethodEntry, ...] = Field(min_length=1)
    """Methods under test."""
    baselines: tuple[MethodEntry, ...] = Field(min_length=1)
    """Baselines: `noop`, and `reference`, `scripted` or `patches`."""
    stages: Stages = Stages()
    """Size of each stage."""
    budgets: Budgets
    """Caps on cost."""
    power: PowerAssumptions = PowerAssumptions()
    """Assumptions of the power analysis."""
    flakes: Flakes = Flakes()
    """Screening of tasks for unstable checks."""
    stopping: Stopping = Stopping()
    """Rules that end the pilot early."""
    seed: int = Field(default=PROTOCOL_SEED, ge=0)
    """Seed of the randomisation; another value is a protocol deviation."""
    prices: str | None = None
    """Price table (CSV), relative to pilot.yaml; without one, costs are in abstract units."""
    sandbox: Literal["auto", "bwrap", "docker"] = "auto"
    """Sandbox backend, as with `ab run --sandbox`."""
    cost_inputs: CostInputs = CostInputs()
    """Inputs of the cost projection."""

    @property
    def entries(self) -> tuple[MethodEntry, ...]:
        """Methods, then baselines."""
        return (*self.methods, *self.baselines)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(entry.label for entry in self.entries)
