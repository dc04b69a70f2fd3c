"""Remarks on valid tasks: settings that weaken a task or have no effect."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentbench.contract.load import LoadedTask
from agentbench.contract.schema import Repo
from agentbench.contract.scorers import missing_unmodified_paths
from agentbench.contract.task_files import is_file

_DIFF = re.compile(rb"^(diff |--- )", re.MULTILINE)
_FULL_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

_NO_REQUIRED_TESTS = (
    "names no required tests and the task has no reference to collect them from, so a patch that stops a failing test "
    "from running goes unnoticed (list the ids, or add a reference and run `ab task lock`)"
)


def remarks(loaded: LoadedTask) -> tuple[str, ...]:
    """Return remarks on a valid task as `key: text`."""
    return tuple(f"{key}: {text}" for key, text in _remarks(loaded))


def conditional_on_network(loaded: LoadedTask) -> bool:
    """Return whether setup can install different things on different days because it has network."""
    return loaded.task.environment.network_policy != "none" and bool(loaded.task.setup.commands)


_INSTALLS = re.compile(r"\b(pip3?|uv pip|conda|apt|apt-get|npm|gem|cargo) install\b|\buv sync\b|\bpoetry install\b")
_FIXED = re.compile(r"--require-hashes|--no-index|--frozen|--locked|--no-deps (-e|--editable)")


def why_not_pinned(loaded: LoadedTask) -> str:
    """Return why setup can install something else on another day; empty if everything is pinned by digest."""
    image = loaded.task.environment.docker_image
    if image is not None and "@sha256:" not in image:
        return f"the image {image} has no digest"
    for command in loaded.task.setup.commands if conditional_on_network(loaded) else ():
        for line in command.splitlines():
            if _INSTALLS.search(line) and not _FIXED.search(line):
                return f"setup installs without digests: {line.strip()}"
    return ""


def _remarks(loaded: LoadedTask) -> Iterator[tuple[str, str]]:
    task = loaded.task
    if isinstance(task.repo, Repo) and task.repo.commit is not None and not _FULL_COMMIT.fullmatch(task.repo.commit):
        yield "repo.commit", "not a full commit id, so it can move (`ab task lock` records the commit it resolves to)"
    reference = loaded.reference_file
    if reference is not None and reference.stat().st_size == 0:
        yield "reference", f"{task.reference} is empty, so it solves nothing"
    elif reference is not None and reference.suffix in {".patch", ".diff"} and not _DIFF.search(reference.read_bytes()):
        yield "reference", f"{task.reference} contains no diff, so it cannot be applied"
    image = task.environment.docker_image
    if image is not None and "@sha256:" not in image:
        yield "environment.docker_image", "a tag without a digest, so the image can change (pin it with @sha256:…)"
    if conditional_on_network(loaded):
        yield "setup", "uses the network, so the environment is conditional on external state"
    if task.environment.network_policy == "always" and not task.environment.network_allow:
        yield "environment.network_policy", "`always` without `network_allow`: `ab run` will reject the task"
    if task.validation is not None and task.oracle.checks:
        yield "validation.passing_command", "not used, because `oracle.checks` is given"
    if isinstance(task.repo, Repo) and task.oracle.hidden is None and not any(c.kind == "probe" for c in loaded.checks):
        yield "oracle.hidden", "no hidden tests and no probe: the agent can see every check"
    for check in loaded.checks:
        if check.has_parsed_results and not (check.fail_to_pass or check.pass_to_pass or task.reference):
            yield f"check `{check.id}`", _NO_REQUIRED_TESTS
    if isinstance(task.repo, Repo) and task.reference is None:
        yield "reference", "no reference solution, so nothing proves that the task can be solved"
    yield from _missing_unmodified_files(loaded)
    yield from _limits(loaded)


def _limits(loaded: LoadedTask) -> Iterator[tuple[str, str]]:
    task = loaded.task
    if "wall_sec" in task.budget.model_fields_set and task.budget.wall_sec > loaded.wall_sec:
        yield "budget.wall_sec", f"has no effect: environment.timeout_sec is smaller ({loaded.wall_sec})"
    calls = task.budget.tool_calls
    if calls is not None and calls > loaded.max_tool_calls:
        yield "budget.tool_calls", f"has no effect: agent.max_steps is smaller ({loaded.max_tool_calls})"


def _missing_unmodified_files(loaded: LoadedTask) -> Iterator[tuple[str, str]]:
    """Report files that a scorer expects unmodified and that a local base repository does not contain."""
    root = loaded.repo_folder
    if root is None:
        return
    root /= loaded.task.repo.subdir or "" if isinstance(loaded.task.repo, Repo) else ""
    unless = ", unless setup creates it" if loaded.task.setup.commands else ""
    for key, message in missing_unmodified_paths(loaded.scorers, lambda path: is_file(root, path)):
        scorer = loaded.scorers[int(key[1])]
        yield f"scorer `{scorer.name}`", message + unless
