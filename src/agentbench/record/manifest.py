"""The manifest of an attempt: the plan and the observed environment, written before the agent acts.

An unknown value is declared absent by an empty value. `manifest_problems` lists the fields that make an attempt invalid.
"""

# No `from __future__ import annotations`: pydantic would compile every annotation, a quarter of the time to import this.

from pathlib import Path
from typing import Literal

import pydantic_core
from pydantic import Field, JsonValue, ValidationError

from agentbench.core.canonical import CanonicalError, Json, parse_strict, sha256_hex
from agentbench.core.errors import RecordError
from agentbench.core.reasons import Observability
from agentbench.record.durable import write_atomic
from agentbench.record.schema import Part
from agentbench.trace.json_safe import field_names, to_json
from agentbench.trace.originals import EvidenceText
from agentbench.trace.redaction import Redactor


class RepositoryPlan(Part):
    """The base repository as the task pins it."""

    kind: Literal["git", "archive", "path", "none"]
    url: str | None = None
    commit: str | None = None
    submodules: dict[str, str] = Field(default_factory=dict)
    archive: str | None = None
    sha256: str | None = None
    """Digest of the archive file."""
    content: str | None = None
    """Content digest of the tree, if a lock file pins it."""


class TaskIds(Part):
    """The task and its checks."""

    task_id: str
    suite: str
    contract_id: str
    task_digest: str
    acceptance_id: str
    locked: bool


class PlannedCheck(Part):
    id: str
    layer: str
    mandatory: bool
    command: str
    timeout_sec: float


class SandboxPlan(Part):
    backend: str
    image: str | None = None
    image_digest: str | None = None
    """Digest of the image, if a lock pins it for this backend."""
    env_digest: str | None = None
    """Digest of the prepared environment, if a lock pins it for this backend."""
    workdir: str
    python: str | None = None
    network: str
    network_allow: tuple[str, ...] = ()
    """Hosts that the recording proxy allows, if the agent has network access."""
    limits: dict[str, float]


class Entrypoints(Part):
    """The commands that install, build and check."""

    install: tuple[str, ...]
    build: str
    static: tuple[str, ...]
    acceptance: tuple[str, ...]


class GradingPlan(Part):
    """Rubric numbers and enforced caps, from which the verdict can be recomputed."""

    penalty_lambda: float = 1.0
    envelope_files: int = 5
    envelope_lines: int = 200
    weights: dict[str, float] | None = None
    """Null: the published weights."""
    cap_active_sec: float | None = None
    cap_tool_calls: int | None = None
    cap_tokens: int | None = None
    cap_usd: float | None = None
    needs_briefing: bool = True
    """False for a patch made elsewhere, whose trace is complete without a briefing; true in manifests of earlier versions."""
    tag_notes: bool = False
    """Notes about risky text and unknown packages become tags; false in manifests of versions without that."""


class GuardPlan(Part):
    """The inputs of breakers and monitors, from which their decisions can be recomputed."""

    thresholds: dict[str, int]
    monitors: str
    """Digest of the rules."""
    wall_us: int | None = None
    tool_calls: int | None = None
    steps_are_calls: bool = False
    tokens: int | None = None
    cost_micro_usd: int | None = None
    exec_call_micro: int = 0
    exec_hour_micro: int = 0
    """Prices of execution; 0 in manifests of versions whose cost cap covered only models."""
    failed_cycles: int | None = None
    max_installs: int | None = None
    deny_commands: tuple[tuple[str, Literal["gate", "penalty"]], ...] = ()
    allow_new_dependencies: bool = True
    dependency_severity: Literal["gate", "penalty"] = "penalty"
    operator: bool = False
    read_output: bool = False
    """Monitors read the output of an agent program; false in manifests of versions that did not."""
    known_packages: tuple[str, ...] | None = None
    """Python packages that the task knows; null if packages are not compared."""
    stages: tuple[str, ...] = ()
    """Stages in the order they are granted."""
    stage_mode: Literal["auto", "strict"] | None = None
    """Null in manifests of versions without strict stages, which means `auto`."""
    stages_enforced: bool = True
    """Whether a tool outside the current stage was denied: true only in strict mode. Versions without `stage_mode` wrote true for every
    agent that works through tools, although its calls entered the stages they needed."""
    not_applicable: dict[str, str] = Field(default_factory=dict)
    """Rules and caps that are skipped, because this agent's observability does not show what they need; with the reason."""
    stops_enforced: bool = False
    """A decision to end the attempt is carried out at once, and nothing the agent does follows it. False in manifests of
    versions in which a program went on."""


class RatesPlan(Part):
    """Prices in micro-units, from which the cost can be recomputed."""

    exec_call_micro: int
    exec_hour_micro: int
    gigabyte_micro: int
    """Price of storing a gigabyte of evidence."""
    review_hour_micro: int
    """Price of an hour of a person's time."""


class HeadroomPlan(Part):
    """The part of the cost cap that is reserved for acceptance and logging."""

    executions: int
    """Expected builds, static commands and runs of checks."""
    execution_us: int
    """Their expected time, from the runs of the checks on the base repository."""
    evidence_bytes: int
    margin_percent: int
    micro: int
    """The reserve in micro-units."""


class PluginUse(Part):
    """A plug-in that the attempt uses, or an object of the process that started the run."""

    kind: str
    name: str
    distribution: str | None = None
    """The package; null for an object that was passed in from Python."""
    version: str | None = None


class EvidencePlan(Part):
    """How the attempt treats text."""

    text: EvidenceText = "redacted"


class Planned(Part):
    repository: RepositoryPlan
    task: TaskIds
    acceptance: tuple[PlannedCheck, ...]
    grading: GradingPlan = GradingPlan.model_construct()
    guard: GuardPlan | None = None
    """Null in manifests of versions without breakers."""
    rates: RatesPlan | None = None
    """Null in manifests of versions that recorded only the prices of tool calls."""
    headroom: HeadroomPlan | None = None
    """Null before the checks ran on the base repository, and in manifests of versions that reserved a fixed share."""
    evidence: EvidencePlan = EvidencePlan.model_construct()
    """`redacted` in manifests of versions without a choice."""
    entrypoints: Entrypoints
    sandbox: SandboxPlan
    environment: dict[str, str] = Field(default_factory=dict)
    """Declared variables."""
    secrets: tuple[str, ...] = ()
    """Names only."""
    variant: str
    agent: str
    observability: Observability | None = None
    """Observability of the agent; None before it is created and for given patches."""
    configuration: dict[str, JsonValue]
    """Every resolved value with its origin."""
    limits: dict[str, JsonValue]
    config_class: str
    plugins: tuple[PluginUse, ...] = ()
    """Empty if everything is built in, and in manifests of versions without plug-ins."""
    framework: str = "numpy"
    base_seed: int
    seed: int


class ExecutedCommand(Part):
    phase: str
    command: str
    exit_code: int | None
    timed_out: bool = False
    duration_us: int = 0
    cached: bool = False


class RedactedSecret(Part):
    """A secret in the files of the base repository. Its value is nowhere in the run directory."""

    placeholder: str
    """The text that replaces it."""
    kind: str
    places: tuple[str, ...]
    """The first places where it occurs, as `path:line`."""


class RedactedSecrets(Part):
    """The search of the base repository for secrets, which are redacted from everything that the attempt records."""

    rules: str
    """Version of the rules."""
    searched_files: int
    skipped_files: int = 0
    """Files that were too large to search, or beyond the total size that is searched."""
    complete: bool = True
    """False if there are more secrets than are redacted."""
    secrets: tuple[RedactedSecret, ...] = ()


class Observed(Part):
    """The environment just before the agent phase."""

    snapshot: str
    """Content digest of the base repository."""
    source: dict[str, str]
    """Origin of the base repository: resolved commit, archive digest, `submodule:PATH` with revision and URL."""
    base_tree: str
    """Digest of the workspace after setup."""
    env_digest: str
    backend: str
    image_digest: str | None = None
    command_server: str = ""
    """The interpreter that runs the command server."""
    enforcement: dict[str, str]
    """Strength of each limit: hard, monitored, absent."""
    os: dict[str, str]
    """As seen inside the sandbox."""
    python: str | None = None
    package_managers: dict[str, str]
    locale: dict[str, str] = Field(default_factory=dict)
    hardware: dict[str, str] = Field(default_factory=dict)
    """Processor and memory class."""
    registries: tuple[str, ...] = ()
    lockfiles: dict[str, str] = Field(default_factory=dict)
    environment: dict[str, str] = Field(default_factory=dict)
    commands: tuple[ExecutedCommand, ...] = ()
    setup_changed: tuple[str, ...] = ()
    """Files of the base repository that setup changed."""
    seed: int
    started_at: str
    agent_program: dict[str, str] = Field(default_factory=dict)
    """The installed agent program: package, version, layer digest. Empty for built-in agents."""
    repository_secrets: RedactedSecrets | None = None
    """Null in manifests of versions that did not search for secrets."""
    program_commands: Literal["observed", "not_observed"] | None = None
    """Whether the commands of an agent program can be observed; null if no program acts as the agent."""
    program_commands_why: str = ""
    """Why they cannot."""
    notes: tuple[str, ...] = ()


class ProtocolManifest(Part):
    planned: Planned
    observed: Observed | None = None
    """Null if the attempt ended before setup finished."""
    deviations: tuple[str, ...] = ()


class Manifest(Part):
    """`<task_dir>/manifest.json`."""

    schema_version: Literal[1] = 1
    harness_version: str
    study_id: str
    run_id: str
    attempt_id: str
    written_at: str
    replayable: bool = True
    protocol_manifest: ProtocolManifest


def write_manifest(path: Path, manifest: Manifest, *, redact: Redactor | None = None) -> str:
    """Write the manifest durably and return its SHA-256, which `identity_bound` contains.

    Raises:
        RecordError: the file cannot be written.
    """
    data = indented_json(manifest.model_dump(mode="json"), redact, field_names(Manifest))
    write_atomic(path, data)
    return sha256_hex(data)


def read_manifest(path: Path) -> Manifest:
    """Read a manifest.

    Raises:
        RecordError: the file is missing, unreadable or not a manifest.
    """
    try:
        return Manifest.model_validate(parse_strict(path.read_bytes()))
    except OSError as error:
        raise RecordError.of("read", path, error) from error
    except (CanonicalError, ValidationError) as error:
        raise RecordError(f"{path} is not a manifest: {str(error).splitlines()[0]}") from error


def evidence_text(folder: Path) -> EvidenceText:
    """Return how the attempt in a folder treats text.

    Raises:
        RecordError: its manifest cannot be read.
    """
    return read_manifest(folder / "manifest.json").protocol_manifest.planned.evidence.text


def indented_json(value: Json, redact: Redactor | None = None, names: frozenset[str] = frozenset()) -> bytes:
    """Encode as indented JSON, whatever text the value contains."""
    return pydantic_core.to_json(to_json(value, redact, names), indent=2) + b"\n"
