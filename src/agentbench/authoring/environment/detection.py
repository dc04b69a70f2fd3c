"""Detect how to install a repository for its tests, from its packaging, test requirements and test runner.

Pure: reads files through a function it is given. The result is a list of plans, the most faithful first; installing
them decides which one works.
"""

from __future__ import annotations

import configparser
import dataclasses
import itertools
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import field

from agentbench.authoring.environment.python_versions import choose_python
from agentbench.authoring.environment.requirements import (
    REQUIREMENT_FILES,
    Read,
    at,
    declared_requirements,
    extras_for_tests,
    extras_of,
    file_requirements,
    group_requirements,
    groups_of,
    has_build_backend,
    hints,
    ini_of,
    locked_requirements,
    names_of,
    own_names,
    plain_requirements,
    runtime_requirements,
    script_requirements,
    strings,
    toml_of,
    unique,
    unpinned,
    with_tool_files,
)
from agentbench.core.dataclass import dataclass
from agentbench.core.package_name import normal_name

_OPTION_PLUGINS = {"--cov": "pytest-cov", "-n": "pytest-xdist", "--numprocesses": "pytest-xdist", "--timeout": "pytest-timeout",
                   "--benchmark": "pytest-benchmark", "--asyncio": "pytest-asyncio", "--mypy": "pytest-mypy-plugins",
                   "--flake8": "pytest-flake8", "--randomly": "pytest-randomly", "--doctest-plus": "pytest-doctestplus"}  # fmt: skip
_KEY_PLUGINS = {
    "asyncio_mode": "pytest-asyncio",
    "timeout": "pytest-timeout",
    "mock_use_standalone_module": "pytest-mock",
}
_DISABLED = {"pytest-randomly": "no:randomly", "pytest-enabler": "no:enabler"}
"""Plugins to disable, so that a verdict depends neither on the order of tests nor on linters that run as tests."""
_SCM = {
    r"setuptools[_-]scm|hatch-vcs|vcs-versioning|flit_scm": "SETUPTOOLS_SCM_PRETEND_VERSION",
    r"\bpbr\b": "PBR_VERSION",
    r"poetry-dynamic-versioning": "POETRY_DYNAMIC_VERSIONING_BYPASS",
    r"\bpdm-(?:backend|pep517)\b": "PDM_BUILD_SCM_VERSION",
    r"uv-dynamic-versioning": "UV_DYNAMIC_VERSIONING_BYPASS",
}
"""Tools that read the version from git tags, and the variable that overrides it."""
_INSTALL = "python -m pip install "


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """One way to install a repository and its test requirements."""

    name: str
    commands: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    locked: tuple[str, ...] = ()
    """Versions to constrain everything to, as `name==version`."""


@dataclass(frozen=True, slots=True)
class DetectedSetup:
    """Everything that was detected about a repository's setup."""

    plans: tuple[InstallPlan, ...]
    python: str
    options: tuple[str, ...]
    """pytest options that override the project's configuration: one process, no coverage."""
    editable: tuple[str, ...]
    """Projects installed from the repository itself."""
    notes: tuple[str, ...]
    named: frozenset[str] = frozenset()
    """Distributions that packaging and requirement files name."""
    locked: tuple[str, ...] = ()
    """Versions in the project's lock file."""
    own: frozenset[str] = frozenset()
    """Names of the project itself, which must not be constrained to one of its releases."""
    extras: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Requirements by extra; certain tests may need one."""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Requirements by dependency group."""


@dataclass(frozen=True, slots=True)
class DetectionContext:
    """Facts beside the files: commit date, available interpreters, last release, imports of the tests."""

    date: str
    pythons: Sequence[str]
    default_python: str
    release: str | None = None
    imports: Sequence[str] = ()
    folder: str = ""
    """Folder of the project in the repository; file names are relative to it."""
    added: Sequence[str] = ()
    """Requirements that the fix adds, without which it could not run."""


def detect(read: Read, context: DetectionContext) -> DetectedSetup:
    """Detect how to install a project for its tests.

    Raises:
        UnsuitableCommit: no available interpreter fits.
    """
    project, config, script = _packaging(read)
    packaged = _is_packaged(project, config, script)
    python, remark = choose_python(project, config, script, context.date, context.pythons, context.default_python)
    by_name = extras_for_tests(project, config, script)
    runner = hints(read, project, config, python)
    extras = unique([*by_name, *runner.extras])
    groups = unique([*group_requirements(project), *runner.grouped])
    files = [name for name in REQUIREMENT_FILES if read(name) is not None][:1]
    plugins, options = _runner_needs(read, project, config)
    env = _versioning(project, config, script, context.release)
    place = f"./{context.folder}" if context.folder else "."
    base = ["-e", f"{place}[{','.join(extras)}]" if extras else place] if packaged else plain_requirements(read)
    needs = unique(["pytest", *plugins])
    other = [*runner.requirements, *script_requirements(script, "tests_require")]
    named = [*groups, *(other if runner.with_groups or not groups else [])]
    words = {
        "the project's own test requirements": [
            *base,
            *(["-r", files[0]] if files and not (by_name or groups) else []),
            *named,
            *context.added,
            *needs,
        ],
        "test requirements without pins": [
            *base,
            *unpinned([*named, *file_requirements(read, files), *context.added]),
            *needs,
        ],
        "the modules that the tests import": [*(["-e", place] if packaged else []), *context.imports, *needs],
    }
    stated = [*named, *file_requirements(read, files), *declared_requirements(project, config, script), *context.added]
    listed = [*stated, *needs, *context.imports]
    listed_names = {normal_name(name) for name in names_of(listed)}
    for name, disable in _DISABLED.items():
        if name in listed_names:
            options += ["-p", disable]
    editable = (place,) if packaged else ()
    own = frozenset(own_names(project, config, script))
    return DetectedSetup(
        plans=_plans(words, context.folder, env),
        python=python,
        options=tuple(options),
        editable=editable,
        notes=_notes(remark, packaged=packaged, added=context.added),
        named=frozenset(names_of(listed)),
        locked=locked_requirements(read),
        own=own,
        extras=extras_of(project, config, own),
        groups=groups_of(project, own),
    )


def _notes(remark: str, *, packaged: bool, added: Sequence[str]) -> tuple[str, ...]:
    notes = {
        remark: bool(remark),
        "No packaging found: the repository can only be imported from its root.": not packaged,
        f"Setup installs requirements that the fix adds: {', '.join(added)}.": bool(added),
    }
    return tuple(note for note, applies in notes.items() if applies)


def _plans(words_by_name: Mapping[str, Sequence[str]], folder: str, env: Mapping[str, str]) -> tuple[InstallPlan, ...]:
    """Build one install command per plan, without duplicates."""
    plans: list[InstallPlan] = []
    for name, words in words_by_name.items():
        placed = [f"{folder}/{word}" if folder and before == "-r" else word
                  for before, word in itertools.pairwise(["", *words])]  # fmt: skip
        command = _INSTALL + " ".join(shlex.quote(word) for word in placed)
        if command not in [plan.commands[0] for plan in plans]:
            plans.append(InstallPlan(name, (command,), env))
    return tuple(plans)


def combine(setups: Sequence[DetectedSetup]) -> DetectedSetup:
    """Combine the setups of several projects in one repository; the first wins where only one value is possible."""
    first = setups[0]
    if len(setups) == 1:
        return first
    longest = max((setup.plans for setup in setups), key=len)
    plans: list[InstallPlan] = []
    for number, plan in enumerate(longest):
        parts = [setup.plans[min(number, len(setup.plans) - 1)] for setup in setups]
        words = " ".join(part.commands[0].removeprefix(_INSTALL) for part in parts)
        env = {name: value for part in reversed(parts) for name, value in part.env.items()}
        plans.append(InstallPlan(plan.name, (f"{_INSTALL}{words}",), env))
    editable = tuple(project for setup in setups for project in setup.editable)
    return dataclasses.replace(
        first,
        plans=tuple(plans),
        options=tuple(
            word for options in unique([shlex.join(setup.options) for setup in setups]) for word in shlex.split(options)
        ),
        editable=editable,
        notes=tuple(
            unique([*(note for setup in setups for note in setup.notes), f"Installed together: {', '.join(editable)}."])
        ),
        named=frozenset().union(*(setup.named for setup in setups)),
        own=frozenset().union(*(setup.own for setup in setups)),
        extras={name: lines for setup in reversed(setups) for name, lines in setup.extras.items()},
        groups={name: lines for setup in reversed(setups) for name, lines in setup.groups.items()},
    )


def added_requirements(before: Read, after: Read) -> tuple[str, ...]:
    """Return the requirements that packaging names after a fix and not before."""
    known = {normal_name(name) for name in names_of(_stated(before))}
    own = {normal_name(name) for name in own_names(*_packaging(after))}
    lines = [line for line in _stated(after) if (name := names_of([line])) and normal_name(name[0]) not in known | own]
    return tuple(unique(lines))


def _packaging(read: Read) -> tuple[Mapping[str, object], configparser.RawConfigParser, str]:
    return with_tool_files(toml_of(read("pyproject.toml")), read), ini_of(read("setup.cfg")), read("setup.py") or ""


def is_packaged(read: Read) -> bool:
    """Return whether a project can be installed. A pyproject.toml may contain nothing but tool settings."""
    return _is_packaged(*_packaging(read))


def _is_packaged(project: Mapping[str, object], config: configparser.RawConfigParser, script: str) -> bool:
    return bool(script or has_build_backend(project) or config.has_section("metadata"))


def _stated(read: Read) -> list[str]:
    """Return everything that packaging requires to run or to test the project."""
    project, config, script = _packaging(read)
    runner = hints(read, project, config)
    tests = [*group_requirements(project), *runner.grouped]
    tests += runner.requirements if runner.with_groups or not tests else ()
    files = [name for name in (*REQUIREMENT_FILES, "requirements.txt") if read(name) is not None]
    lines = [*tests, *file_requirements(read, files), *runtime_requirements(project, config, script)]
    for extra in (*extras_for_tests(project, config, script), *runner.extras):
        lines += strings(at(project, "project", "optional-dependencies", extra))
    return [*lines, *script_requirements(script, "tests_require")]


# --- the runner --------------------------------------------------------------------------------------------------


def _runner_needs(
    read: Read, project: Mapping[str, object], config: configparser.RawConfigParser
) -> tuple[list[str], list[str]]:
    """Return plugins that the configuration needs, and options that override parallel runs and coverage."""
    settings: dict[str, str] = {}
    # Since pytest 9, settings may also be in the `tool.pytest` table itself or in pytest.toml.
    tables = [at(project, "tool", "pytest"), at(project, "tool", "pytest", "ini_options")]
    tables += [at(toml_of(read(name)), "pytest") for name in ("pytest.toml", ".pytest.toml")]
    for table in tables:
        if isinstance(table, Mapping):
            settings |= {
                key: " ".join(strings(value)) if isinstance(value, list) else str(value) for key, value in table.items()
            }
    parsers = [
        (config, "tool:pytest"),
        *((ini_of(read(name)), "pytest") for name in ("tox.ini", "pytest.ini", ".pytest.ini")),
    ]
    for parser, section in parsers:
        if parser.has_section(section):
            settings |= dict(parser.items(section))
    addopts = settings.get("addopts", "")
    words = [word for word in re.split(r"\s+", addopts) if word]
    plugins = [
        plugin
        for option, plugin in _OPTION_PLUGINS.items()
        if any(
            word == option
            or word.startswith((f"{option}=", f"{option}-"))
            or (option == "-n" and re.fullmatch(r"-n(\d+|auto|logical)", word))
            for word in words
        )
    ]
    plugins += [plugin for key, plugin in _KEY_PLUGINS.items() if key in settings]
    plugins += names_of(settings.get("required_plugins", "").split())
    options = [*(["-n", "0"] if "pytest-xdist" in plugins else []), *(["--no-cov"] if "pytest-cov" in plugins else [])]
    return unique(plugins), options


def _versioning(
    project: Mapping[str, object], config: configparser.RawConfigParser, script: str, release: str | None
) -> dict[str, str]:
    """Return variables that set the version for tools that read it from git tags, which a snapshot does not have."""
    sections = [dict(config.items(section)) for section in config.sections()]
    text = f"{strings(at(project, 'build-system', 'requires'))} {script} {sections}"
    match = re.search(r"\d+(\.\d+)*", release or "")
    version = match[0] if match else "0.1"
    return {variable: version for tool, variable in _SCM.items() if re.search(tool, text)}
