"""What an author should know about a task that is valid: things that weaken it or have no effect."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentbench.contract.file_locations import is_file
from agentbench.contract.load import LoadedTask
from agentbench.contract.schema import Repo
from agentbench.contract.scorers import unguarded

_FULL_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

UNNAMED = (
    "names no test and there is no reference that would tell: nobody misses a test that R fails and that is kept from running "
    "(`ab task lock` collects the ids)"
)


def remarks(loaded: LoadedTask) -> tuple[str, ...]:
    """Remarks in the order of the file's sections; none of them refuses the task."""
    return tuple(f"{key}: {text}" for key, text in _all(loaded))


def conditional_on_network(loaded: LoadedTask) -> bool:
    """Whether what setup installs depends on what the network holds on that day (C-17)."""
    return loaded.task.environment.network_policy != "none" and bool(loaded.task.setup.commands)


def _all(loaded: LoadedTask) -> Iterator[tuple[str, str]]:
    task = loaded.task
    if isinstance(task.repo, Repo) and task.repo.commit is not None and not _FULL_COMMIT.fullmatch(task.repo.commit):
        yield "repo.commit", "is not a full commit id; what it names can change (`ab task lock` records what it was)"
    image = task.environment.docker_image
    if image is not None and "@sha256:" not in image:
        yield "environment.docker_image", "is a tag, not a digest; what it names can change"
    if conditional_on_network(loaded):
        yield "setup", "uses the network: the environment is conditional on external state"
    if task.environment.network_policy == "always" and not task.environment.network_allow:
        yield "environment.network_policy", "is `always` without `network_allow`: the agent phase will be refused"
    if task.validation is not None and task.oracle.checks:
        yield "validation.passing_command", "is not used: `oracle.checks` decide"
    if isinstance(task.repo, Repo) and task.oracle.hidden is None and not any(c.kind == "probe" for c in loaded.checks):
        yield "oracle.hidden", "there are no hidden tests and no probe: the agent sees everything it is judged by"
    for check in loaded.checks:
        if check.parser == "junit" and not (check.fail_to_pass or check.pass_to_pass or task.reference):
            yield f"check `{check.id}`", UNNAMED
    if isinstance(task.repo, Repo) and task.reference is None:
        yield "reference", "there is no reference solution: nothing shows that the task can be solved"
    yield from _guards(loaded)
    yield from _limits(loaded)


def _limits(loaded: LoadedTask) -> Iterator[tuple[str, str]]:
    task = loaded.task
    if "wall_sec" in task.budget.model_fields_set and task.budget.wall_sec > loaded.wall_sec:
        yield "budget.wall_sec", f"has no effect: environment.timeout_sec is smaller ({loaded.wall_sec})"
    calls = task.budget.tool_calls
    if calls is not None and calls > loaded.max_tool_calls:
        yield "budget.tool_calls", f"has no effect: agent.max_steps is smaller ({loaded.max_tool_calls})"


def _guards(loaded: LoadedTask) -> Iterator[tuple[str, str]]:
    """Files that scorers say must not be edited and that R does not have: as far as a look at R can tell."""
    root = loaded.repo_folder
    if root is None:
        return
    root /= loaded.task.repo.subdir or "" if isinstance(loaded.task.repo, Repo) else ""
    unless = ", unless setup makes it" if loaded.task.setup.commands else ""
    for key, message in unguarded(loaded.scorers, lambda path: is_file(root, path)):
        scorer = loaded.scorers[int(key[1])]
        yield f"scorer `{scorer.name}`", message + unless
