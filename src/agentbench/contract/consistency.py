"""Checks on a task that the schema cannot express: rules between keys, and the files that keys name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path

import pathspec

from agentbench.contract.parsers import parser_problem
from agentbench.contract.problem import KeyPath, KeyProblems, Problem, did_you_mean
from agentbench.contract.schema import Check, Repo, Scorer, StageName, Task
from agentbench.contract.task_files import TaskFileError, hidden_paths, inside, is_file, regular
from agentbench.contract.yaml_document import Document

TOOL_NAMES = ("list_files", "read_file", "search", "apply_patch", "run")

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)(://|::)")
_SCP = re.compile(r"[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:(?!//).+")
_PYPI = re.compile(r"pypi:[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9._+!-]*")
_GIT_SCHEMES = frozenset({"https", "http", "ssh", "git", "file"})
_ARCHIVE_SCHEMES = frozenset({"https", "http", "file"})


def inconsistencies(document: Document, task: Task, folder: Path, guessed: Collection[KeyPath] = ()) -> list[Problem]:
    """Return every problem that involves several keys or the files beside the task.

    `guessed` lists keys whose value was invalid and replaced by a guess. Problems that may only follow from a guess
    are left out.
    """
    rules = (_statement, _environment, _oracle, _checks, _policy)
    between_keys = [*chain.from_iterable(rule(task) for rule in rules), *_source(task, folder), *_leaks(task, folder)]
    problems = [item for item in between_keys if not any(_depends_on(item[0], guess) for guess in guessed)]
    # Whether a named file exists depends on its own key alone.
    about_files = (*_missing_files(task, folder), *_missing_unmodified_files(task, folder))
    problems += [item for item in about_files if not any(item[0][: len(guess)] == guess for guess in guessed)]
    return [document.problem(path, message) for path, message in problems]


def _depends_on(path: KeyPath, guess: KeyPath) -> bool:
    """Return whether a problem at `path` may only exist because of the guess at `guess`."""
    if not path:
        return guess[0] in {"repo", "validation", "oracle"}
    if path[: len(guess)] == guess:
        return True
    in_section = isinstance(guess[-1], str) and len(guess) > 1
    return in_section and guess[:-1] in {path, path[:-1]}


# --- rules between keys --------------------------------------------------------------------------------------------


def _statement(task: Task) -> KeyProblems:
    if task.statement is not None and task.statement_file is not None:
        yield ("statement_file",), "expected either `statement` or `statement_file`, not both"
    if task.repo == "none" and task.statement is None and task.statement_file is None:
        yield ("repo",), "a task with `repo: none` needs a `statement`"
    if task.statement is not None and not task.statement.strip():
        yield ("statement",), "expected some text; it is empty"


def _host_problems(entry: str, path: KeyPath) -> KeyProblems:
    from agentbench.contract.network_allow import parse_entry  # noqa: PLC0415 - few tasks name hosts

    try:
        parse_entry(entry)
    except ValueError as error:
        yield path, f"{error} (use host, host:port, *.domain or address:port)"


def _environment(task: Task) -> KeyProblems:
    environment = task.environment
    if environment.docker_image is not None and environment.dockerfile is not None:
        yield ("environment", "dockerfile"), "expected either `docker_image` or `dockerfile`, not both"
    if environment.network_allow and environment.network_policy != "always":
        message = f"requires `network_policy: always`; it is `{environment.network_policy}`"
        yield ("environment", "network_allow"), message
    for index, entry in enumerate(environment.network_allow):
        yield from _host_problems(entry, ("environment", "network_allow", index))
    for index, entry in enumerate(task.policy.dependencies.registries):
        yield from _host_problems(entry, ("policy", "dependencies", "registries", index))
    for index, name in enumerate(environment.secrets):
        if name in environment.env:
            message = f"{name} is also in `env`; remove it there, a task must not contain the value of a secret"
            yield ("environment", "secrets", index), message


def _oracle(task: Task) -> KeyProblems:
    if task.validation is None and not task.oracle.checks and task.repo != "none":
        yield (), "expected `validation` or `oracle.checks`; without checks a task cannot be graded"
    if task.oracle.checks and not any(check.mandatory for check in task.oracle.checks):
        yield ("oracle", "checks"), "expected at least one mandatory check; without one every patch would pass"
    if task.repo == "none" and (task.validation is not None or task.oracle.checks):
        key = "validation" if task.validation is not None else "oracle"
        yield (key,), "a task with `repo: none` is only judged and cannot have checks"
    if task.oracle.static == ():
        yield ("oracle", "static"), "expected commands; write `none` to declare that there are none"


def _checks(task: Task) -> KeyProblems:
    ids: set[str] = set()
    for index, check in enumerate(task.oracle.checks):
        key: KeyPath = ("oracle", "checks", index)
        if check.id in ids:
            yield (*key, "id"), f"two checks have the id `{check.id}`"
        ids.add(check.id)
        yield from (((*key, *path), message) for path, message in _check(check))


def _check(check: Check) -> KeyProblems:
    if check.kind == "probe":
        yield from _probe(check)
    else:
        if check.command is None:
            yield (), "a check of kind `command` needs `command`"
        for name in ("candidate", "driver"):
            if getattr(check, name) is not None:
                yield (name,), f"`{name}` requires `kind: probe`"
        if problem := parser_problem(check.parser):
            yield ("parser",), problem
        if check.parser == "junit" and check.report is None:
            yield ("parser",), "`junit` needs `report`, the file that the command writes"
        if check.report is not None and not check.has_parsed_results:
            yield ("report",), f"`report` requires `parser: junit` or a plug-in's; it is `{check.parser}`"
        if check.report is not None and not _is_workspace_file(check.report):
            yield ("report",), "expected a file path relative to the workspace, such as `build/report.xml`"
    yield from _required_tests(check)


def _is_workspace_file(report: str) -> bool:
    return not {"", ".", ".."} & set(report.split("/")) and report.isprintable()


def _probe(check: Check) -> KeyProblems:
    for name in ("candidate", "driver"):
        if getattr(check, name) is None:
            yield (), f"a check of kind `probe` needs `{name}`"
    for name in ("command", "report"):
        if getattr(check, name) is not None:
            yield (name,), f"a check of kind `probe` cannot have `{name}`"
    if "parser" in check.model_fields_set:
        yield ("parser",), "a check of kind `probe` cannot have `parser`; its driver reports the results"


def _required_tests(check: Check) -> KeyProblems:
    for name in ("fail_to_pass", "pass_to_pass"):
        test_ids = getattr(check, name)
        if test_ids and check.parser == "exit_code":
            yield (name,), "required test ids need `parser: pytest` or `parser: junit`"
        listed: set[str] = set()
        for index, test_id in enumerate(test_ids):
            if test_id in listed:
                yield (name, index), f"{test_id} is listed twice"
            listed.add(test_id)
    for test_id in sorted(set(check.fail_to_pass) & set(check.pass_to_pass)):
        yield ("pass_to_pass", check.pass_to_pass.index(test_id)), f"{test_id} is also in `fail_to_pass`"


def _policy(task: Task) -> KeyProblems:
    policy, agent = task.policy, task.agent
    if policy.editable_globs and agent.editable_globs and policy.editable_globs != agent.editable_globs:
        yield ("agent", "editable_globs"), "differs from `policy.editable_globs`; keep only one of the two keys"
    for index, tool in enumerate(policy.tools):
        if tool not in TOOL_NAMES:
            hint = did_you_mean(tool, TOOL_NAMES)
            yield ("policy", "tools", index), f"expected one of {', '.join(TOOL_NAMES)}; got {tool}{hint}"
    if len(set(policy.stages)) != len(policy.stages) or not policy.stages:
        yield ("policy", "stages"), "expected at least one stage, and each stage at most once"
    elif message := _stages_problem(policy.stages, strict=policy.stage_mode == "strict"):
        yield ("policy", "stages"), message
    yield from _scorers(task.scorers)
    for path, message in _scorers(task.scenario.scorers if task.scenario is not None else ()):
        yield ("scenario", *path), message
    globs: tuple[tuple[KeyPath, tuple[str, ...]], ...] = (
        (("policy", "editable_globs"), policy.editable_globs),
        (("policy", "readable_globs"), policy.readable_globs),
        (("agent", "editable_globs"), agent.editable_globs),
        (("oracle", "protected"), task.oracle.protected or ()),
        (("oracle", "generated"), task.oracle.generated),
    )
    for key, patterns in globs:
        for index, pattern in enumerate(patterns):
            if message := _glob_problem(pattern):
                yield (*key, index), message


def _scorers(scorers: tuple[Scorer, ...]) -> KeyProblems:
    if scorers:
        from agentbench.contract.scorers import scorer_list_problems  # noqa: PLC0415 - few tasks have scorers

        yield from scorer_list_problems(scorers)


def _stages_problem(stages: tuple[StageName, ...], *, strict: bool) -> str:
    if not strict:
        return "the stage `plan` needs `stage_mode: strict`" if "plan" in stages else ""
    if stages[-1] == "plan":
        return "expected another stage after `plan`: a plan is recorded when the agent leaves it"
    privileges = [stage for stage in ("inspect", "write", "test") if stage in stages]
    if [stage for stage in stages if stage != "plan"] != privileges:
        return "expected the order inspect, write, test: each stage also grants the tools of the stages before it"
    return ""


def _glob_problem(pattern: str) -> str:
    try:
        spec = pathspec.GitIgnoreSpec.from_lines([pattern])
    except ValueError:
        return f"{pattern!r} is not a valid gitignore pattern"
    if all(item.include is None for item in spec.patterns):
        return f"{pattern!r} matches nothing (gitignore reads it as a comment or blank line)"
    return ""


# --- the repository ------------------------------------------------------------------------------------------------


def _source(task: Task, folder: Path) -> KeyProblems:
    repo = task.repo
    if not isinstance(repo, Repo):
        return
    given = [name for name in ("url", "archive", "path") if getattr(repo, name) is not None]
    if len(given) != 1:
        got = " and ".join(given) if given else "none of them"
        yield ("repo",), f"expected exactly one of `url` + `commit`, `archive` + `sha256`, `path`; got {got}"
        return
    for key, owner in (("commit", "url"), ("sha256", "archive")):
        value = getattr(repo, key)
        if given == [owner] and value is None:
            yield ("repo", owner), f"`{owner}` needs `{key}`, which pins what it points to"
        if given != [owner] and value is not None:
            yield ("repo", key), f"`{key}` requires `{owner}`, which is missing"
    if repo.commit is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]*", repo.commit):
        yield ("repo", "commit"), "expected a commit id"
    if repo.subdir is not None and (repo.subdir.startswith("/") or ".." in Path(repo.subdir).parts):
        yield ("repo", "subdir"), "expected a path inside the repository"
    if repo.url is not None:
        yield from _location(folder, ("repo", "url"), repo.url, _GIT_SCHEMES, may_be_missing=repo.origin is not None)
    yield from _origin(repo, folder)
    if repo.archive is not None and not _PYPI.fullmatch(repo.archive):
        yield from _location(folder, ("repo", "archive"), repo.archive, _ARCHIVE_SCHEMES)
    if repo.path is not None and not _exists(folder / repo.path, folder=True):
        yield ("repo", "path"), f"expected a folder; {repo.path} is not one (relative to task.yaml)"


def _origin(repo: Repo, folder: Path) -> KeyProblems:
    if repo.origin is None:
        return
    if repo.url is None:
        yield ("repo", "origin"), "`origin` requires `url`, which is missing"
    elif not _SCHEME.match(repo.origin) and not _SCP.fullmatch(repo.origin):
        yield ("repo", "origin"), f"expected a URL that other machines can reach; got {repo.origin}"
    else:
        yield from _location(folder, ("repo", "origin"), repo.origin, _GIT_SCHEMES)


def _location(
    folder: Path, key: KeyPath, source: str, schemes: frozenset[str], *, may_be_missing: bool = False
) -> KeyProblems:
    if source.startswith("-"):
        yield key, "must not start with a dash"
    elif source.startswith("pypi:"):
        yield key, "expected pypi:NAME==VERSION"
    elif match := _SCHEME.match(source):
        if match[2] == "::" or match[1].lower() not in schemes:
            yield key, f"expected a path or a URL with scheme {', '.join(sorted(schemes))}; got {match[0]}"
    elif key[-1] in {"url", "origin"} and _SCP.fullmatch(source):
        return
    elif not may_be_missing and not _exists(folder / source, folder=key[-1] == "url"):
        yield key, f"{source} does not exist (relative to task.yaml)"


def _exists(path: Path, *, folder: bool) -> bool:
    try:
        return path.is_dir() if folder else path.is_file()
    except (OSError, ValueError):
        return False


def _leaks(task: Task, folder: Path) -> KeyProblems:
    """Report hidden files, references and drivers inside `repo.path`: the agent sees everything in that folder."""
    if not isinstance(task.repo, Repo) or task.repo.path is None or not _exists(folder / task.repo.path, folder=True):
        return
    root = (folder / task.repo.path).resolve()
    if _within(folder, root):
        yield ("repo", "path"), "contains the task folder: the agent would see its hidden files and reference"
        return
    private_files: list[tuple[KeyPath, str | None]] = [
        (("oracle", "hidden"), task.oracle.hidden),
        (("reference",), task.reference),
        *_drivers(task),
    ]
    for key, name in private_files:
        if name is not None and _within(folder / name, root):
            yield key, f"{name} is inside `repo.path`: the agent would see it; move it out"


def _within(path: Path, root: Path) -> bool:
    try:
        return path.resolve().is_relative_to(root)
    except (OSError, RuntimeError, ValueError):
        # A link loop or an impossible name; `_missing_files` reports it.
        return False


# --- files beside task.yaml ----------------------------------------------------------------------------------------


def _missing_files(task: Task, folder: Path) -> KeyProblems:
    named_files: list[tuple[KeyPath, str | None]] = [
        (("statement_file",), task.statement_file),
        (("environment", "dockerfile"), task.environment.dockerfile),
        (("reference",), task.reference),
        *_drivers(task),
    ]
    for key, name in named_files:
        if name is None:
            continue
        try:
            regular(inside(folder, name), name)
        except TaskFileError as error:
            yield key, str(error)
    if task.oracle.hidden is not None:
        yield from _hidden(task.oracle.hidden, folder)


def _drivers(task: Task) -> Iterator[tuple[KeyPath, str | None]]:
    for index, check in enumerate(task.oracle.checks):
        yield ("oracle", "checks", index, "driver"), check.driver


def _hidden(name: str, folder: Path) -> KeyProblems:
    key: KeyPath = ("oracle", "hidden")
    try:
        path = inside(folder, name)
        if not path.is_dir():
            yield key, f"{name} is not a folder"
        elif path.resolve() == folder.resolve():
            yield key, "expected a separate folder beside task.yaml, not the task folder itself"
        elif not list(hidden_paths(path)):
            yield key, f"{name} contains no files"
    except TaskFileError as error:
        yield key, str(error)


def _missing_unmodified_files(task: Task, folder: Path) -> KeyProblems:
    """Report files that a scorer expects unmodified but that do not exist.

    Only decidable here when the repository is a folder beside the task and no setup command could create the file.
    """
    if task.scorers and isinstance(task.repo, Repo) and task.repo.path is not None and not task.setup.commands:
        from agentbench.contract.scorers import missing_unmodified_paths  # noqa: PLC0415 - few tasks have scorers

        root = folder / task.repo.path / (task.repo.subdir or "")
        if root.is_dir():
            yield from missing_unmodified_paths(task.scorers, lambda path: is_file(root, path))
