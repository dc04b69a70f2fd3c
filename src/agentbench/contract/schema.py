"""The schema of `task.yaml` as frozen models, with its defaults."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

NetworkPolicy = Literal["none", "setup_only", "always"]
Layer = Literal["build", "static", "unit", "integration", "e2e", "script"]
Parser = Literal["pytest", "junit", "exit_code"]
LimitStrength = Literal["hard", "monitored", "absent"]
Severity = Literal["gate", "penalty"]
StageName = Literal["inspect", "write", "test"]

Slug = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
Hex64 = Annotated[str, StringConstraints(pattern=r"^(sha256:)?[0-9a-f]{64}$")]
NonEmpty = Annotated[str, StringConstraints(min_length=1)]

DEFAULT_GENERATED = (
    "**/__pycache__/**",
    "**/.pytest_cache/**",
    "**/*.pyc",
    "**/*.egg-info/**",
    ".venv/**",
    "build/**",
)
"""Files that tools create: kept as evidence, but not part of the patch, its size or its scope."""


class Model(BaseModel):
    """Base of all models: immutable, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, validate_default=False)


# --- repository --------------------------------------------------------------------------------------------------


class Repo(Model):
    """The base repository from exactly one source: `url` + `commit`, `archive` + `sha256`, or `path`."""

    url: NonEmpty | None = None
    commit: Annotated[str, StringConstraints(min_length=1)] | None = None
    archive: NonEmpty | None = None
    sha256: Hex64 | None = None
    path: NonEmpty | None = None
    submodules: bool = True
    subdir: str | None = None


# --- environment -------------------------------------------------------------------------------------------------


class Environment(Model):
    docker_image: NonEmpty | None = None
    dockerfile: NonEmpty | None = None
    python: Annotated[str, StringConstraints(pattern=r"^3\.\d+$")] | None = None
    workdir: Annotated[str, StringConstraints(pattern=r"^/[^\x00]*$")] = "/workspace"
    network_policy: NetworkPolicy = "none"
    network_allow: tuple[NonEmpty, ...] = ()
    cpu_limit: Annotated[float, Field(gt=0, le=1024)] = 2
    mem_limit_mb: Annotated[int, Field(ge=16)] = 4096
    pids_limit: Annotated[int, Field(ge=4)] = 256
    disk_limit_mb: Annotated[int, Field(ge=1)] = 2048
    timeout_sec: Annotated[int, Field(ge=1)] = 1800
    tool_timeout_sec: Annotated[int, Field(ge=1)] = 120
    env: dict[Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str] = Field(default_factory=dict)
    secrets: tuple[Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], ...] = ()


# --- setup -------------------------------------------------------------------------------------------------------


class Setup(Model):
    commands: tuple[NonEmpty, ...] = ()
    capture: tuple[NonEmpty, ...] = ()
    timeout_sec: Annotated[int, Field(ge=1)] = 1800


# --- checks ------------------------------------------------------------------------------------------------------


class Validation(Model):
    """The short form of `oracle`: a command that must fail on the base repository and one that must pass after the patch."""

    failing_command: NonEmpty
    passing_command: NonEmpty


class Check(Model):
    """One acceptance check."""

    id: Slug
    layer: Layer = "unit"
    kind: Literal["command", "probe"] = "command"
    command: NonEmpty | None = None
    parser: Parser = "exit_code"
    report: NonEmpty | None = None
    fail_to_pass: tuple[NonEmpty, ...] = ()
    pass_to_pass: tuple[NonEmpty, ...] = ()
    mandatory: bool = True
    timeout_sec: Annotated[int, Field(ge=1)] = 300
    reruns: Annotated[int, Field(ge=0, le=20)] = 0
    flake_tolerance: Annotated[float, Field(ge=0, le=1)] = 0.0
    candidate: NonEmpty | None = None
    driver: NonEmpty | None = None


class Oracle(Model):
    build: NonEmpty = "none"
    static: Literal["none"] | tuple[NonEmpty, ...] = "none"
    hidden: NonEmpty | None = None
    protected: tuple[NonEmpty, ...] | None = None
    """If None: the files of the required test ids, conftest.py at any level, pytest.ini and tox.ini."""
    generated: tuple[NonEmpty, ...] = DEFAULT_GENERATED
    checks: tuple[Check, ...] = ()


# --- policy and budget -------------------------------------------------------------------------------------------


class DenyCommand(Model):
    pattern: NonEmpty
    severity: Severity = "gate"


class DependencyRules(Model):
    allow_new: bool = True
    severity: Severity = "penalty"
    registries: tuple[NonEmpty, ...] = ()
    max_events: Annotated[int, Field(ge=0)] | None = None


class RequireLimits(Model):
    cpu: LimitStrength = "absent"
    memory: LimitStrength = "absent"
    pids: LimitStrength = "absent"
    disk: LimitStrength = "absent"


class Policy(Model):
    editable_globs: tuple[NonEmpty, ...] = ()
    readable_globs: tuple[NonEmpty, ...] = ()
    outside_editable: Literal["revert", "violation"] | None = None
    """How a command's changes outside `editable_globs` are handled. None means `violation`."""
    deny_commands: tuple[DenyCommand, ...] = ()
    dependencies: DependencyRules = DependencyRules()
    require_limits: RequireLimits = RequireLimits()
    stages: tuple[StageName, ...] = ("inspect", "write", "test")
    tools: tuple[NonEmpty, ...] = ()


class Budget(Model):
    usd: Annotated[float, Field(ge=0)] = 5.00
    wall_sec: Annotated[int, Field(ge=1)] = 1800
    tokens: Annotated[int, Field(ge=0)] | None = None
    tool_calls: Annotated[int, Field(ge=0)] | None = None
    failed_cycles: Annotated[int, Field(ge=0)] | None = None


# --- everything outside the contract -----------------------------------------------------------------------------


class Envelope(Model):
    files: Annotated[int, Field(ge=1)] = 5
    lines: Annotated[int, Field(ge=1)] = 200


class Rubric(Model):
    lambda_: Annotated[float, Field(ge=0, alias="lambda")] = 1.0
    envelope: Envelope = Envelope()


class Strata(Model):
    ecosystem: str | None = None
    kind: Literal["bugfix", "refactor", "feature", "dependency", "migration", "docs", "hardening"] | None = None
    test_runtime: Literal["short", "medium", "long"] | None = None
    dependencies: Literal["none", "small", "medium", "large"] | None = None


class Hints(Model):
    test_command: str | None = None
    build_command: str | None = None
    target_modules: tuple[str, ...] = ()
    entry_points: tuple[str, ...] = ()
    expected_behaviour: str | None = None


class AgentSection(Model):
    entrypoint: str = "llm_v0"
    max_steps: Annotated[int, Field(ge=1)] = 30
    allow_file_write: bool = True
    editable_globs: tuple[NonEmpty, ...] = ()


class Artifacts(Model):
    keep_workspace: bool = False
    redact: tuple[NonEmpty, ...] = ()


class Scorer(BaseModel):
    """A scorer. `contract.scorers` validates the fields of its type."""

    model_config = ConfigDict(frozen=True, extra="allow")
    name: NonEmpty
    type: NonEmpty
    required: bool | None = None


class Judge(Model):
    enabled: bool = True
    expected_outcome: Literal["completion", "refusal"] = "completion"
    rubric: str = ""


class Task(Model):
    """A whole `task.yaml`."""

    schema_version: Literal[1] = 1
    id: Slug
    suite: Slug
    title: str = ""
    statement: str | None = None
    statement_file: NonEmpty | None = None
    hints: Hints = Hints()
    strata: Strata = Strata()
    repo: Repo | Literal["none"]
    environment: Environment = Environment()
    setup: Setup = Setup()
    validation: Validation | None = None
    oracle: Oracle = Oracle()
    reference: NonEmpty | None = None
    turns: tuple[NonEmpty, ...] = ()
    policy: Policy = Policy()
    budget: Budget = Budget()
    rubric: Rubric = Rubric()
    scorers: tuple[Scorer, ...] = ()
    judge: Judge | None = None
    agent: AgentSection = AgentSection()
    artifacts: Artifacts = Artifacts()
