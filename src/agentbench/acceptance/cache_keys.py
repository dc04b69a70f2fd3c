"""Cache keys of results about a task: everything that such a result depends on, and nothing else.

A result made while a task is created, validated or locked must serve the first grading too. So a key contains no
identity of the task: renaming it, or adding test ids to a check, leaves the results about its base repository valid.
"""

from __future__ import annotations

from pathlib import Path

from agentbench.acceptance.cache import key_of
from agentbench.acceptance.checks.pytest.runner_bundle import runner_digest
from agentbench.acceptance.grading_context import GradingContext
from agentbench.contract.parsers import OTHER_PARSERS
from agentbench.contract.schema import Check
from agentbench.contract.task_files import read_bytes
from agentbench.core.canonical import Json, sha256_hex


def replica_key(context: GradingContext) -> str:
    """The key of the base repository's replica: prepared environment, hidden files, build, and limits of the sandbox.

    CPU limits are left out: they make a run slower and leave its outcome.
    """
    spec, oracle = context.spec, context.loaded.task.oracle
    hidden: list[Json] = [
        [name.hex(), file.executable, sha256_hex(file.content)] for name, file in context.loaded.hidden_files().items()
    ]
    return key_of(
        context.prepared.digest,
        context.backend.name,
        spec.workdir,
        dict(spec.env),
        [spec.limits.memory_mb, spec.limits.pids, spec.limits.disk_mb],
        hidden,
        [oracle.build, list(oracle.protected or ()), list(oracle.generated)],
    )


def command_key(context: GradingContext, check: Check) -> str:
    """The key of a pytest command on the base repository, whichever of its tests are required."""
    return key_of(replica_key(context), check.command, check.timeout_sec, runner_digest())


def check_key(context: GradingContext, check: Check) -> str:
    """The key of a check: its command or probe, and its required tests."""
    driver = "" if check.driver is None else sha256_hex(read_bytes(context.loaded.driver_file(check)))
    parts: list[Json] = [
        [check.kind, check.parser, check.report, check.candidate, check.driver, driver],
        [list(check.fail_to_pass), list(check.pass_to_pass)],
    ]
    if check.parser not in OTHER_PARSERS.built_in:
        parts.append(OTHER_PARSERS.fingerprint(check.parser))
    return key_of(command_key(context, check), *parts)


def reference_key(context: GradingContext, check: Check, file: Path | None) -> str:
    """The key of a check together with the reference that it is compared with."""
    return key_of(check_key(context, check), "" if file is None else sha256_hex(read_bytes(file)))
