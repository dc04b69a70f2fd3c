"""What one key demands of another. The schema itself cannot say these."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain
from pathlib import Path

import pathspec

from agentbench.contract.file_locations import Found, absent, is_file, misplaced
from agentbench.contract.network_allow import parse_entry
from agentbench.contract.problem import KeyPath, Problem, did_you_mean
from agentbench.contract.schema import Check, Repo, Task
from agentbench.contract.scorers import listed_problems, unguarded
from agentbench.contract.yaml_document import Document

TOOL_NAMES = ("list_files", "read_file", "search", "apply_patch", "run")


def inconsistencies(document: Document, task: Task, folder: Path, doubtful: Collection[KeyPath] = ()) -> list[Problem]:
    """Every problem that needs more than one key, or a look at the files beside the task.

    Where a key is `doubtful` (guessed, because its value is wrong by itself), what follows from it is left out.
    """
    rules = (_statement, _environment, _oracle, _checks, _policy)
    related = [*chain.from_iterable(rule(task) for rule in rules), *misplaced(task, folder)]
    found = [item for item in related if not any(_follows(item[0], guess) for guess in doubtful)]
    # Whether a named file is there depends on no other key.
    named = (*absent(task, folder), *_guards(task, folder))
    found += [item for item in named if not any(item[0][: len(guess)] == guess for guess in doubtful)]
    return [document.problem(path, message) for path, message in found]


def _follows(path: KeyPath, guess: KeyPath) -> bool:
    """Whether a problem at `path` may only be there because `guess` was guessed."""
    if not path:
        return guess[0] in {"repo", "validation", "oracle"}
    if path[: len(guess)] == guess:
        return True
    named = isinstance(guess[-1], str) and len(guess) > 1
    return named and guess[:-1] in {path, path[:-1]}


def _statement(task: Task) -> Found:
    if task.statement is not None and task.statement_file is not None:
        yield ("statement_file",), "expected either `statement` or `statement_file`, not both"
    if task.repo == "none" and task.statement is None and task.statement_file is None:
        yield ("repo",), "a task without a repository needs a `statement`"
    if task.statement is not None and not task.statement.strip():
        yield ("statement",), "expected some text; it is empty"


def _environment(task: Task) -> Found:
    environment = task.environment
    if environment.docker_image is not None and environment.dockerfile is not None:
        yield ("environment", "dockerfile"), "expected either `docker_image` or `dockerfile`, not both"
    if environment.network_allow and environment.network_policy != "always":
        message = f"is only read with `network_policy: always`; it is {environment.network_policy}"
        yield ("environment", "network_allow"), message
    for index, entry in enumerate(environment.network_allow):
        try:
            parse_entry(entry)
        except ValueError as error:
            yield ("environment", "network_allow", index), f"{error} (host, host:port, *.domain or address:port)"
    for index, name in enumerate(environment.secrets):
        if name in environment.env:
            message = f"{name} is also in `env`; a secret's value never stands in a task"
            yield ("environment", "secrets", index), message


def _oracle(task: Task) -> Found:
    if task.validation is None and not task.oracle.checks and task.repo != "none":
        yield (), "expected `validation` or `oracle.checks`: nothing says when the task is solved"
    if task.oracle.checks and not any(check.mandatory for check in task.oracle.checks):
        yield ("oracle", "checks"), "expected at least one mandatory check; without one every patch would succeed"
    if task.repo == "none" and (task.validation is not None or task.oracle.checks):
        key = "validation" if task.validation is not None else "oracle"
        yield (key,), "a task without a repository is only judged; it has no checks"
    if task.oracle.static == ():
        yield ("oracle", "static"), "expected commands; write `none` to declare that there are none"


def _checks(task: Task) -> Found:
    seen: set[str] = set()
    for index, check in enumerate(task.oracle.checks):
        key: KeyPath = ("oracle", "checks", index)
        if check.id in seen:
            yield (*key, "id"), f"`{check.id}` is the id of two checks"
        seen.add(check.id)
        yield from (((*key, *path), message) for path, message in _check(check))


def _check(check: Check) -> Found:
    if check.kind == "probe":
        yield from _probe(check)
    else:
        if check.command is None:
            yield (), "a check of kind `command` needs `command`"
        for name in ("candidate", "driver"):
            if getattr(check, name) is not None:
                yield (name,), f"`{name}` belongs to a check of kind `probe` (write `kind: probe`)"
        if check.parser == "junit" and check.report is None:
            yield ("parser",), "`junit` needs `report`, the file that the command writes"
        if check.report is not None and check.parser != "junit":
            yield ("report",), f"`report` is only read with `parser: junit`; it is {check.parser}"
        if check.report is not None and not _is_file_inside(check.report):
            yield ("report",), "expected a file inside the workspace, relative to it, such as `build/report.xml`"
    yield from _required(check)


def _is_file_inside(report: str) -> bool:
    parts = report.split("/")
    return not {"", ".", ".."} & set(parts) and report.isprintable()


def _probe(check: Check) -> Found:
    for name in ("candidate", "driver"):
        if getattr(check, name) is None:
            yield (), f"a check of kind `probe` needs `{name}`"
    for name in ("command", "report"):
        if getattr(check, name) is not None:
            yield (name,), f"`{name}` does not belong to a check of kind `probe`"
    if "parser" in check.model_fields_set:
        yield ("parser",), "a probe has no parser: its driver reports the results"


def _required(check: Check) -> Found:
    for name in ("fail_to_pass", "pass_to_pass"):
        ids = getattr(check, name)
        if ids and check.parser == "exit_code":
            yield (name,), "required test ids need `parser: pytest` or `parser: junit`"
        first: set[str] = set()
        for index, test in enumerate(ids):
            if test in first:
                yield (name, index), f"{test} is listed twice"
            first.add(test)
    for test in sorted(set(check.fail_to_pass) & set(check.pass_to_pass)):
        yield ("pass_to_pass", check.pass_to_pass.index(test)), f"{test} is also in `fail_to_pass`"


def _policy(task: Task) -> Found:
    policy, agent = task.policy, task.agent
    if policy.editable_globs and agent.editable_globs and policy.editable_globs != agent.editable_globs:
        yield ("agent", "editable_globs"), "differs from `policy.editable_globs`, which means the same; give it once"
    for index, tool in enumerate(policy.tools):
        if tool not in TOOL_NAMES:
            hint = did_you_mean(tool, TOOL_NAMES)
            yield ("policy", "tools", index), f"expected one of {', '.join(TOOL_NAMES)}; got {tool}{hint}"
    if len(set(policy.stages)) != len(policy.stages) or not policy.stages:
        yield ("policy", "stages"), "expected each stage at most once, and at least one"
    yield from listed_problems(task.scorers)
    globs: tuple[tuple[KeyPath, tuple[str, ...]], ...] = (
        (("policy", "editable_globs"), policy.editable_globs),
        (("policy", "readable_globs"), policy.readable_globs),
        (("agent", "editable_globs"), agent.editable_globs),
        (("oracle", "protected"), task.oracle.protected or ()),
        (("oracle", "generated"), task.oracle.generated),
    )
    for key, patterns in globs:
        for index, pattern in enumerate(patterns):
            if trouble := _bad_glob(pattern):
                yield (*key, index), trouble


def _guards(task: Task, folder: Path) -> Found:
    """Files that must not be edited and are not there, where R lies beside the task and no setup could still make them."""
    if isinstance(task.repo, Repo) and task.repo.path is not None and not task.setup.commands:
        root = folder / task.repo.path / (task.repo.subdir or "")
        if root.is_dir():
            yield from unguarded(task.scorers, lambda path: is_file(root, path))


def _bad_glob(pattern: str) -> str:
    try:
        spec = pathspec.GitIgnoreSpec.from_lines([pattern])
    except ValueError:
        return f"{pattern!r} is not a pattern that gitignore would read"
    if all(item.include is None for item in spec.patterns):
        return f"{pattern!r} matches nothing (a comment or blank line to gitignore)"
    return ""
