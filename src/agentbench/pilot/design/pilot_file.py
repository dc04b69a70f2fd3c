"""`pilot.yaml`: its schema, and reading it with every problem and its line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from agentbench.contract.problem import InvalidFileError, KeyPath, KeyProblems
from agentbench.contract.schema import Strata
from agentbench.contract.schema_problems import validate_document
from agentbench.contract.yaml_document import read_document
from agentbench.core.protocol import PROTOCOL_SEED
from agentbench.pilot.folder import PILOT_FILE
from agentbench.statistics.sequential.rules import MAX_LOOKS
from agentbench.statistics.trials import Rate

STAGES = ("feasibility", "limited", "full")
StageName = Literal["feasibility", "limited", "full"]
AGENTS = ("noop", "reference", "scripted")
"""Bundled agents that a pilot can name without a variant file."""


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

    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$")
    """Name in the plan and in reports; by default that of the variant or agent."""
    variant: str | None = None
    """Variant: a name (in `variants/` beside pilot.yaml, in `configs/variants`, or bundled), or a YAML file."""
    agent: Literal["noop", "reference", "scripted"] | None = None
    """A bundled agent without a model."""
    script: str | None = None
    """File or folder of tool calls for the agent `scripted`, relative to pilot.yaml."""
    patches: str | None = None
    """Folder with TASK.patch for every task, for example patches that people wrote; relative to pilot.yaml."""
    model: str | None = None
    """Model of the variant, as with `ab run --model`."""

    @property
    def label(self) -> str:
        """The name of the method in the plan."""
        return self.name or self.agent or (Path(self.variant).stem if self.variant else "patches")


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
    """Price of an hour of a reviewer."""


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


def read_pilot(folder: Path) -> PilotFile:
    """Read `pilot.yaml` of a pilot.

    Raises:
        ContractError: it cannot be read, or with every problem and its line.
    """
    document = read_document(folder / PILOT_FILE, PILOT_FILE if folder == Path() else str(folder / PILOT_FILE))
    validated = validate_document(document, PilotFile)
    pilot, problems = validated.model, list(validated.problems)
    if pilot is not None:
        problems += [
            document.problem(path, message)
            for path, message in _inconsistencies(pilot)
            if not any(path[: len(guessed)] == guessed for guessed in validated.guessed)
        ]
    if pilot is None or problems:
        raise InvalidFileError(document.file, problems)
    return pilot


def _inconsistencies(pilot: PilotFile) -> KeyProblems:
    yield from _entry_problems(pilot)
    yield from _baseline_problems(pilot)
    yield from _stage_problems(pilot.stages)
    yield from _budget_problems(pilot.budgets)
    yield from _power_problems(pilot.power)
    yield from _efficacy_problems(pilot)
    for index, key in enumerate(pilot.strata):
        if key not in Strata.model_fields:
            yield ("strata", index), f"unknown stratum; expected one of {', '.join(Strata.model_fields)}"
        elif key in pilot.strata[:index]:
            yield ("strata", index), "given twice"


def _entry_problems(pilot: PilotFile) -> KeyProblems:
    names: set[str] = set()
    for path, entry in _entries(pilot):
        given = [key for key in ("variant", "agent", "patches") if getattr(entry, key) is not None]
        if len(given) != 1:
            yield path, f"expected exactly one of variant, agent and patches; got {', '.join(given) or 'none'}"
        if (entry.agent == "scripted") != (entry.script is not None):
            yield path, "`script` and `agent: scripted` need each other"
        if entry.model is not None and entry.variant is None:
            yield (*path, "model"), "only a variant has a model"
        if entry.label in names:
            yield path, f"two methods are called {entry.label}; give one of them another `name`"
        names.add(entry.label)


def _entries(pilot: PilotFile) -> Iterator[tuple[KeyPath, MethodEntry]]:
    for key in ("methods", "baselines"):
        for index, entry in enumerate(getattr(pilot, key)):
            yield (key, index), entry


def _baseline_problems(pilot: PilotFile) -> KeyProblems:
    agents = {entry.agent for entry in pilot.baselines}
    if "noop" not in agents:
        yield ("baselines",), "`{agent: noop}` is missing: it shows which tasks are satisfied without any work"
    if not agents & {"reference", "scripted"} and not any(entry.patches for entry in pilot.baselines):
        yield (
            ("baselines",),
            "a second baseline is missing: {agent: reference}, {agent: scripted, script: …} or {name: human, patches: …}",
        )


def _stage_problems(stages: Stages) -> KeyProblems:
    repeats = [getattr(stages, name).repeats for name in STAGES]
    for index in (1, 2):
        if repeats[index] < repeats[index - 1]:
            message = (
                f"expected at least {repeats[index - 1]}, the repeats of {STAGES[index - 1]}; got {repeats[index]}"
            )
            yield ("stages", STAGES[index], "repeats"), f"{message} (repeats include those of earlier stages)"


def _budget_problems(budgets: Budgets) -> KeyProblems:
    if budgets.task < budgets.run:
        yield ("budgets", "task"), f"{budgets.task:g} is less than one attempt may cost (budgets.run: {budgets.run:g})"
    if budgets.total < budgets.run:
        yield (
            ("budgets", "total"),
            f"{budgets.total:g} is less than one attempt may cost (budgets.run: {budgets.run:g})",
        )
    elif budgets.total < budgets.task:
        yield ("budgets", "total"), f"{budgets.total:g} is less than budgets.task ({budgets.task:g})"


def _efficacy_problems(pilot: PilotFile) -> KeyProblems:
    efficacy = pilot.stopping.efficacy
    if efficacy is None:
        return
    if len(pilot.methods) < 2:
        yield ("stopping", "efficacy"), "it compares the first two methods, and there is only one"
    if efficacy.rule == "anytime":
        given = [key for key in ("spending", "futility") if getattr(efficacy, key) is not None]
        yield from ((("stopping", "efficacy", key), "only for rule: group_sequential") for key in given)


def _power_problems(power: PowerAssumptions) -> KeyProblems:
    for index, rate in enumerate(power.rates):
        if not 0 <= rate <= 1 or rate + power.effect > 1:
            yield (
                ("power", "rates", index),
                f"expected a rate from 0 to {1 - power.effect:g} (1 - effect); got {rate:g}",
            )
    for index, correlation in enumerate(power.correlations):
        if not 0 <= correlation <= 1:
            yield ("power", "correlations", index), f"expected a number from 0 to 1; got {correlation:g}"
