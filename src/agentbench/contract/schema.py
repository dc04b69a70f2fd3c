"""The schema of `task.yaml` as frozen models, with its defaults."""

# No `from __future__ import annotations`: pydantic would compile every annotation, a quarter of the time to import this.

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

NetworkPolicy = Literal["none", "setup_only", "always"]
Layer = Literal["build", "static", "unit", "integration", "e2e", "script"]
LimitStrength = Literal["hard", "monitored", "absent"]
Severity = Literal["gate", "penalty"]
StageName = Literal["inspect", "plan", "write", "test"]
StageMode = Literal["auto", "strict"]

SLUG = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
Slug = Annotated[str, StringConstraints(pattern=SLUG)]
Hex64 = Annotated[str, StringConstraints(pattern=r"^(sha256:)?[0-9a-f]{64}$")]
NonEmpty = Annotated[str, StringConstraints(min_length=1)]

DEFAULT_GENERATED = (
    "**/__pycache__/**", "**/.pytest_cache/**", "**/*.pyc", "**/*.egg-info/**", ".venv/**", "build/**",
)  # fmt: skip
"""Files that tools create: kept as evidence, but not part of the patch, its size or its scope."""


class Model(BaseModel):
    """Base of all models: immutable, and an unknown key is an error."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, validate_default=False, defer_build=True
    )


# --- repository --------------------------------------------------------------------------------------------------


class Repo(Model):
    """The base repository from exactly one source: `url` + `commit`, `archive` + `sha256`, or `path`."""

    url: NonEmpty | None = None
    """A git repository: a URL, or a path relative to the task file. Needs `commit`."""
    origin: NonEmpty | None = None
    """URL that `url` was cloned from. It is used where the path in `url` does not exist, and is part of no digest."""
    commit: Annotated[str, StringConstraints(min_length=1)] | None = None
    """The commit to start from."""
    archive: NonEmpty | None = None
    """`pypi:NAME==VERSION`, a URL, or a file relative to the task file. Needs `sha256`."""
    sha256: Hex64 | None = None
    """Digest of the archive."""
    path: NonEmpty | None = None
    """A folder relative to the task file, identified by its content. It must not contain the task's hidden files, drivers or reference."""
    submodules: bool = True
    """Include git submodules."""
    subdir: str | None = None
    """Use only this folder of the repository."""


# --- environment -------------------------------------------------------------------------------------------------


class Environment(Model):
    docker_image: NonEmpty | None = None
    """Image to run in. Without `docker_image` and `dockerfile`, the task runs in bubblewrap."""
    dockerfile: NonEmpty | None = None
    """File beside the task that the image is built from."""
    python: Annotated[str, StringConstraints(pattern=r"^3\.\d+$")] | None = None
    """Python version, quoted: `"3.11"`. Any version by default."""
    workdir: Annotated[str, StringConstraints(pattern=r"^/[^\x00]*$")] = "/workspace"
    """Path of the repository inside the sandbox."""
    network_policy: NetworkPolicy = "none"
    """Network access: never, in setup only, or (`always`) for the agent through the recording proxy. Checks never have network access."""
    network_allow: tuple[NonEmpty, ...] = ()
    """With `always`: hosts the agent may reach, as `host`, `host:port` or `*.domain`. Ports 80 and 443 by default."""
    cpu_limit: Annotated[float, Field(gt=0, le=1024)] = 2
    """Number of processors."""
    mem_limit_mb: Annotated[int, Field(ge=16)] = 4096
    """Memory."""
    pids_limit: Annotated[int, Field(ge=4)] = 256
    """Processes and threads."""
    disk_limit_mb: Annotated[int, Field(ge=1)] = 2048
    """Bytes that may be written."""
    timeout_sec: Annotated[int, Field(ge=1)] = 1800
    """Time limit of the agent phase."""
    tool_timeout_sec: Annotated[int, Field(ge=1)] = 120
    """Time limit of one command of the agent."""
    env: dict[Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str] = Field(default_factory=dict)
    """Environment variables. No other variable of the host reaches the sandbox. Values are strings: quote numbers."""
    secrets: tuple[Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], ...] = ()
    """Names of host variables that only setup may read. Their values are redacted everywhere."""


# --- setup -------------------------------------------------------------------------------------------------------


class Setup(Model):
    commands: tuple[NonEmpty, ...] = ()
    """Commands that run once, in order. Agents and checks start from the result."""
    capture: tuple[NonEmpty, ...] = ()
    """Commands whose output is kept as evidence of what was installed."""
    timeout_sec: Annotated[int, Field(ge=1)] = 1800
    """Time limit of all setup commands together."""


# --- checks ------------------------------------------------------------------------------------------------------


class Validation(Model):
    """The short form of `oracle`: a command that must fail on the base repository, and one that must pass with a patch."""

    failing_command: NonEmpty
    """Must fail on the base repository after setup."""
    passing_command: NonEmpty
    """The mandatory check `validation`, with a time limit of 300 s. Not used if `oracle.checks` is given."""


class Check(Model):
    """One acceptance check."""

    id: Slug
    """Unique in the task."""
    layer: Layer = "unit"
    """Kind of check, for failure tags."""
    kind: Literal["command", "probe"] = "command"
    """`command`, or `probe` for a check whose judge runs in another process than the code under test."""
    command: NonEmpty | None = None
    """Shell command, for `kind: command`."""
    parser: NonEmpty = "exit_code"
    """`pytest`, `junit` and parsers of plug-ins give results per test, `exit_code` only pass or fail."""
    report: NonEmpty | None = None
    """The report file that the command writes, for `parser: junit` and parsers of plug-ins that read one."""
    fail_to_pass: tuple[NonEmpty, ...] = ()
    """Ids of tests that fail on the base repository and must pass with the patch."""
    pass_to_pass: tuple[NonEmpty, ...] = ()
    """Ids of tests that pass on the base repository and must still pass."""
    mandatory: bool = True
    """Mandatory checks decide the verdict, others are diagnostics. At least one must be mandatory."""
    timeout_sec: Annotated[int, Field(ge=1)] = 300
    """Time limit. Pytest checks with a reference may have a shorter one, derived from the time that it takes."""
    reruns: Annotated[int, Field(ge=0, le=20)] = 0
    """Additional runs. One failure fails the check."""
    flake_tolerance: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of differing outcomes that the flake screen tolerates."""
    candidate: NonEmpty | None = None
    """For `probe`: the program under test, started in its own sandbox."""
    driver: NonEmpty | None = None
    """For `probe`: a file beside the task that talks to the candidate and writes one JSON line per result to the descriptor `$AB_RESULT_FD`."""

    @property
    def has_parsed_results(self) -> bool:
        """Whether results per test are read from a report or the output: by `junit`, or by a plug-in."""
        return self.parser not in {"pytest", "exit_code"}


class Oracle(Model):
    build: NonEmpty = "none"
    """Build command, or `none`."""
    static: Literal["none"] | tuple[NonEmpty, ...] = "none"
    """List of static check commands, or `none`."""
    hidden: NonEmpty | None = None
    """Folder beside the task that is added to the repository only for grading."""
    protected: tuple[NonEmpty, ...] | None = None
    """If None: the files of the required test ids, conftest.py at any level, pytest.ini and tox.ini."""
    generated: tuple[NonEmpty, ...] = DEFAULT_GENERATED
    """Globs of generated files: kept as evidence, but not part of the patch, its size or its scope."""
    min_decoy_coverage: Annotated[float, Field(ge=0, le=1)] | None = None
    """Smallest share of fail-to-pass tests of a pytest check that must have a decoy test with a wrong value. If None: none is required."""
    checks: tuple[Check, ...] = ()
    """The acceptance checks, in order."""


# --- policy and budget -------------------------------------------------------------------------------------------


class DenyCommand(Model):
    pattern: NonEmpty
    """Glob that is matched against the whole line and each command in it."""
    severity: Severity = "gate"
    """`gate` fails the attempt, `penalty` lowers its score."""


class DependencyRules(Model):
    allow_new: bool = True
    """Whether new dependencies are allowed."""
    severity: Severity = "penalty"
    """Severity of a violation."""
    registries: tuple[NonEmpty, ...] = ()
    """Hosts that setup may download from (`pypi.org`, `*.pythonhosted.org`, `host:port`). Empty: any host."""
    max_events: Annotated[int, Field(ge=0)] | None = None
    """Most commands that install dependencies."""


class RequireLimits(Model):
    cpu: LimitStrength = "absent"
    memory: LimitStrength = "absent"
    pids: LimitStrength = "absent"
    disk: LimitStrength = "absent"


class Policy(Model):
    editable_globs: tuple[NonEmpty, ...] = ()
    """Paths the agent may change; empty means all."""
    readable_globs: tuple[NonEmpty, ...] = ()
    """Paths the agent's tools may read; empty means all."""
    outside_editable: Literal["revert", "violation"] | None = None
    """How a command's changes outside `editable_globs` are handled. None means `violation`."""
    deny_commands: tuple[DenyCommand, ...] = ()
    """Commands the agent may not run."""
    dependencies: DependencyRules = DependencyRules.model_construct()
    """Rules for new dependencies."""
    require_limits: RequireLimits = RequireLimits.model_construct()
    """Required strength of each limit: `hard`, `monitored` or `absent`. A backend that offers less is refused."""
    stages: tuple[StageName, ...] = ("inspect", "write", "test")
    """Stages that the agent may use. In strict mode also the order in which they are granted; `plan` needs strict mode."""
    stage_mode: StageMode | None = None
    """`auto`: a tool call enters the stage it needs. `strict`: a tool outside the current stage returns `stage_denied`, and the agent
    asks for the next stage with the tool `request_stage`. None means `auto`."""
    tools: tuple[NonEmpty, ...] = ()
    """Tools that the agent may use; empty means all."""


class Budget(Model):
    usd: Annotated[float, Field(ge=0)] = 5.00
    """Cost in US dollars."""
    wall_sec: Annotated[int, Field(ge=1)] = 1800
    """Time of the agent phase."""
    tokens: Annotated[int, Field(ge=0)] | None = None
    """Model tokens."""
    tool_calls: Annotated[int, Field(ge=0)] | None = None
    """Tool calls."""
    failed_cycles: Annotated[int, Field(ge=0)] | None = None
    """Failed test runs."""


# --- everything outside the contract -----------------------------------------------------------------------------


class Envelope(Model):
    files: Annotated[int, Field(ge=1)] = 5
    """Number of files that a minimal patch may change."""
    lines: Annotated[int, Field(ge=1)] = 200
    """Number of lines that a minimal patch may change."""


class Rubric(Model):
    lambda_: Annotated[float, Field(ge=0, alias="lambda")] = 1.0
    """Weight of the patch size in the minimality score."""
    envelope: Envelope = Envelope.model_construct()
    """Patch size that counts as 1."""


class Strata(Model):
    ecosystem: str | None = None
    """For example `python`."""
    kind: Literal["bugfix", "refactor", "feature", "dependency", "migration", "docs", "hardening"] | None = None
    """Kind of task."""
    test_runtime: Literal["short", "medium", "long"] | None = None
    """How long the tests take."""
    dependencies: Literal["none", "small", "medium", "large"] | None = None
    """How many dependencies the project has."""


class Hints(Model):
    test_command: str | None = None
    """Command that runs the tests."""
    build_command: str | None = None
    """Command that builds the project."""
    target_modules: tuple[str, ...] = ()
    """Modules that probably need changes."""
    entry_points: tuple[str, ...] = ()
    """Entry points of the project."""
    expected_behaviour: str | None = None
    """What the solution must do."""


class AgentSection(Model):
    entrypoint: str = "llm_v0"
    """Default agent."""
    max_steps: Annotated[int, Field(ge=1)] = 30
    """Most tool calls."""
    allow_file_write: bool = True
    """Whether the agent may change files."""
    editable_globs: tuple[NonEmpty, ...] = ()
    """Same as `policy.editable_globs`; if both are given they must be equal."""


class Artifacts(Model):
    keep_workspace: bool = False
    """Keep a copy of the final workspace in `repo/`."""
    redact: tuple[NonEmpty, ...] = ()
    """Names of variables whose values are redacted."""


class Scorer(BaseModel):
    """A scorer. `contract.scorers` validates the fields of its type."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)
    name: NonEmpty
    """Name of the scorer."""
    type: NonEmpty
    """One of the eleven scorer types, or that of a plug-in."""
    required: bool | None = None
    """Whether a failure fails the workspace verdict."""


class Judge(Model):
    enabled: bool = True
    """Whether a judge model is asked (with `--judge-model`)."""
    expected_outcome: Literal["completion", "refusal"] = "completion"
    """Whether the agent should complete the task or refuse it."""
    rubric: str = ""
    """Additional instructions for the judge."""


class FrozenScenario(Model):
    """The scorers and the judge of a suite when a task was created or locked."""

    scorers: tuple[Scorer, ...] = ()
    """The suite's scorers."""
    judge: Judge | None = None
    """The suite's judge."""


class Task(Model):
    """A whole `task.yaml`."""

    schema_version: Literal[1] = 1
    """Version of this format."""
    id: Slug
    """Unique in the suite; letters, digits, `.`, `-` and `_`."""
    suite: Slug
    """Name of the folder that contains the task."""
    title: str = ""
    """Title for people."""
    statement: str | None = None
    """What the agent is told. By default it is derived from the id and the failing command."""
    statement_file: NonEmpty | None = None
    """File beside the task with the statement."""
    hints: Hints = Hints.model_construct()
    """Further information for the agent."""
    strata: Strata = Strata.model_construct()
    """Properties of the task that results are grouped by."""
    repo: Repo | Literal["none"]
    """The base repository, or `none` for a task that only a judge evaluates."""
    environment: Environment = Environment.model_construct()
    """Image or interpreter, limits, network, variables, secrets."""
    setup: Setup = Setup.model_construct()
    """Commands that install the dependencies."""
    validation: Validation | None = None
    """Short form of `oracle`."""
    oracle: Oracle = Oracle.model_construct()
    """The checks that decide whether the task is solved."""
    reference: NonEmpty | None = None
    """A patch (`.patch`, `.diff`) or a script that solves the task. A script runs in the sandbox: `.py` with Python, others with `sh`. Agents never see it."""
    turns: tuple[NonEmpty, ...] = ()
    """Further user messages of a multi-turn task, which is graded once at the end."""
    policy: Policy = Policy.model_construct()
    """What the agent may do."""
    budget: Budget = Budget.model_construct()
    """Caps of one attempt."""
    rubric: Rubric = Rubric.model_construct()
    """Numbers of the minimality score."""
    scorers: tuple[Scorer, ...] = ()
    """Scorers of this task. Scorers of the suite are in `scenario.yaml`."""
    judge: Judge | None = None
    """Settings of the judge."""
    scenario: FrozenScenario | None = None
    """The suite's scorers and judge when the task was created, which replace those of `scenario.yaml`."""
    agent: AgentSection = AgentSection.model_construct()
    """Defaults for agents."""
    artifacts: Artifacts = Artifacts.model_construct()
    """What a run keeps."""


# --- scenario.yaml -----------------------------------------------------------------------------------------------

Share = Annotated[float, Field(ge=0, le=1)]


class Weights(Model):
    """Weights of the graded score, which sum to 1. Set per suite, never per task."""

    minimal: Share = 0.4
    trace: Share = 0.2
    maintainability: Share = 0.4


class Scenario(Model):
    """A whole `scenario.yaml`: scorers, judge and weights of a suite."""

    scorers: tuple[Scorer, ...] = ()
    judge: Judge | None = None
    weights: Weights = Weights.model_construct()

    def frozen(self) -> FrozenScenario:
        """Return the part that a task keeps. Weights belong to the suite."""
        return FrozenScenario(scorers=self.scorers, judge=self.judge)
