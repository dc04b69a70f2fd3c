"""Run the declared build, and limit a candidate's build by the duration of the base repository's and the reference's.

A build can stop all its processes and wait for its time limit in every replica.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from agentbench.acceptance.cache import key_of, load, load_or_make
from agentbench.acceptance.cache_keys import replica_key
from agentbench.acceptance.grading_context import GradingContext
from agentbench.acceptance.replica import declares_build, shell
from agentbench.contract.task_files import read_bytes
from agentbench.core.canonical import sha256_hex
from agentbench.core.command import Completed
from agentbench.sandbox.protocol import Sandbox

MAX_SEC = 1800.0
MIN_SEC, MIN_WITH_REFERENCE_SEC = 300.0, 60.0
"""A patch may add files to compile to a build that has had nothing to do. The build of the reference shows how many."""
FACTOR = 10


class BaseBuild(BaseModel):
    """Duration of the base repository's build on this machine; None if it does not pass, which proves nothing."""

    model_config = ConfigDict(frozen=True, defer_build=True)
    duration_sec: float | None


class ReferenceBuild(BaseModel):
    """Duration of a passing build of the reference on this machine."""

    model_config = ConfigDict(frozen=True, defer_build=True)
    duration_sec: float


def base_build_key(context: GradingContext) -> str:
    """Return the key of the base build: unlike an outcome, a duration depends on the CPU limit."""
    return key_of(replica_key(context), context.spec.limits.cpus)


def run_base_build(context: GradingContext, sandbox: Sandbox) -> Completed | None:
    """Run the declared build in a replica of the base repository and keep its duration. Return None if none is declared."""
    if not declares_build(context):
        return None
    completed = run_build(context, sandbox, MAX_SEC)
    built = BaseBuild(duration_sec=completed.duration_sec if completed.ok else None)
    load_or_make(context.cache, base_build_key(context), BaseBuild, lambda: built)
    return completed


def reference_build_key(context: GradingContext) -> str:
    """Return the key of the reference's build, which no result has if there is no reference."""
    file = context.loaded.reference_file
    # A replay may come without the file.
    content = b"" if file is None or not file.is_file() else read_bytes(file)
    return key_of(base_build_key(context), sha256_hex(content))


def keep_reference_build(context: GradingContext, completed: Completed) -> None:
    """Keep how long the first passing build of the reference took."""
    if completed.ok:
        built = ReferenceBuild(duration_sec=completed.duration_sec)
        load_or_make(context.cache, reference_build_key(context), ReferenceBuild, lambda: built)


def run_build(context: GradingContext, sandbox: Sandbox, limit_sec: float) -> Completed:
    """Run the declared build in a replica."""
    return sandbox.run(shell(context, context.loaded.task.oracle.build, limit_sec))


def build_limit(context: GradingContext) -> float:
    """Return the seconds that a candidate's build may take; 0 if none is declared.

    The baseline usually built the base repository before, and the plan of the decoys the reference; if neither duration is
    known, the limit is `MAX_SEC`. No sandbox is opened here, because its loss would be blamed on the candidate.
    """
    if not declares_build(context):
        return 0
    base = load(context.cache, base_build_key(context), BaseBuild)
    reference = load(context.cache, reference_build_key(context), ReferenceBuild)
    durations = [
        build.duration_sec for build in (base, reference) if build is not None and build.duration_sec is not None
    ]
    if not durations:
        return MAX_SEC
    least = MIN_SEC if reference is None else MIN_WITH_REFERENCE_SEC
    return min(MAX_SEC, max(least, float(round(FACTOR * max(durations)))))
