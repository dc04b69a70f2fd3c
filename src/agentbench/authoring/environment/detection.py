"""How a repository of some day is made ready for its tests: from its packaging, its test requirements and its runner's needs.

Pure: reads through a function it is given. What is found is a list of plans, the most faithful first; running them decides.
"""

from __future__ import annotations

import configparser
import dataclasses
import itertools
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentbench.authoring.environment.python_versions import choose_python
from agentbench.authoring.environment.requirements import (
    REQUIREMENT_FILES,
    Read,
    at,
    builds,
    declared,
    extras_for_tests,
    file_requirements,
    group_requirements,
    grouped,
    ini_of,
    locked_requirements,
    names_of,
    offered,
    own_names,
    plain_requirements,
    script_requirements,
    strings,
    to_run,
    toml_of,
    unique,
    unpinned,
)
from agentbench.authoring.environment.runner_config import hints, with_tool_files
from agentbench.workspace.source.package_index import normal_name

_OPTION_PLUGINS = {"--cov": "pytest-cov", "-n": "pytest-xdist", "--numprocesses": "pytest-xdist", "--timeout": "pytest-timeout",
                   "--benchmark": "pytest-benchmark", "--asyncio": "pytest-asyncio", "--mypy": "pytest-mypy-plugins",
                   "--flake8": "pytest-flake8", "--randomly": "pytest-randomly", "--doctest-plus": "pytest-doctestplus"}  # fmt: skip
_KEY_PLUGINS = {
    "asyncio_mode": "pytest-asyncio",
    "timeout": "pytest-timeout",
    "mock_use_standalone_module": "pytest-mock",
}
_LEFT_OUT = {"pytest-randomly": "no:randomly", "pytest-enabler": "no:enabler"}
"""A verdict must not hang on the order of tests, nor on what mypy and linters, which the second lets loose on every file, say."""
_SCM = {
    r"setuptools[_-]scm|hatch-vcs|vcs-versioning|flit_scm": "SETUPTOOLS_SCM_PRETEND_VERSION",
    r"\bpbr\b": "PBR_VERSION",
    r"poetry-dynamic-versioning": "POETRY_DYNAMIC_VERSIONING_BYPASS",
    r"\bpdm-(?:backend|pep517)\b": "PDM_BUILD_SCM_VERSION",
    r"uv-dynamic-versioning": "UV_DYNAMIC_VERSIONING_BYPASS",
}
"""Tools that draw a version from git, and the variable that tells them one."""
_INSTALL = "python -m pip install "


@dataclass(frozen=True, slots=True)
class Plan:
    """One way to make R ready."""

    name: str
    commands: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    locked: tuple[str, ...] = ()
    """Versions that everything is held to, as `name==version`."""


@dataclass(frozen=True, slots=True)
class Detected:
    plans: tuple[Plan, ...]
    python: str
    options: tuple[str, ...]
    """For pytest, so that what R configures does not get in the way: one process, no coverage."""
    editable: tuple[str, ...]
    """What is installed from R itself."""
    notes: tuple[str, ...]
    named: frozenset[str] = frozenset()
    """Projects that packaging and requirement files name: what is asked of the index about them."""
    locked: tuple[str, ...] = ()
    """What a lock file of the project holds."""
    own: frozenset[str] = frozenset()
    """What the project itself is called, as far as can be read: R is not held to a release of its own."""
    extras: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What every extra brings: some are what only certain tests need."""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What every dependency group brings."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What is known beside the files: the day, the interpreters here, the last release, what test files import."""

    date: str
    pythons: Sequence[str]
    default_python: str
    release: str | None = None
    imports: Sequence[str] = ()
    folder: str = ""
    """Where the project is in the repository; what is read is relative to it."""
    brought: Sequence[str] = ()
    """What the fix adds to its requirements: without it the fix could not run."""


def detect(read: Read, around: Circumstances) -> Detected:
    """Find out how to set R up.

    Raises:
        Unsuitable: none of the interpreters here fits.
    """
    project, config, script = _packaging(read)
    packaged = _is_packaged(project, config, script)
    python, remark = choose_python(project, config, script, around.date, around.pythons, around.default_python)
    by_name = extras_for_tests(project, config, script)
    told = hints(read, project, config, python)
    extras = unique([*by_name, *told.extras])
    groups = unique([*group_requirements(project), *told.grouped])
    files = [name for name in REQUIREMENT_FILES if read(name) is not None][:1]
    plugins, options = _runner_needs(read, project, config)
    env = _versioning(project, config, script, around.release)
    place = f"./{around.folder}" if around.folder else "."
    base = ["-e", f"{place}[{','.join(extras)}]" if extras else place] if packaged else plain_requirements(read)
    needs = unique(["pytest", *plugins])
    beside = [*told.requirements, *script_requirements(script, "tests_require")]
    named = [*groups, *(beside if told.together or not groups else [])]
    found = {
        "the project's own test requirements": [
            *base,
            *(["-r", files[0]] if files and not (by_name or groups) else []),
            *named,
            *around.brought,
            *needs,
        ],
        "test requirements without pins": [
            *base,
            *unpinned([*named, *file_requirements(read, files), *around.brought]),
            *needs,
        ],
        "what the tests import": [*(["-e", place] if packaged else []), *around.imports, *needs],
    }
    stated = [*named, *file_requirements(read, files), *declared(project, config, script), *around.brought]
    listed = [*stated, *needs, *around.imports]
    there = {normal_name(name) for name in names_of(listed)}
    options = [*options, *(word for name, plugin in _LEFT_OUT.items() if name in there for word in ("-p", plugin))]
    editable = (place,) if packaged else ()
    own = frozenset(own_names(project, config, script))
    return Detected(
        plans=_plans(found, around.folder, env),
        python=python,
        options=tuple(options),
        editable=editable,
        notes=_notes(remark, packaged=packaged, brought=around.brought),
        named=frozenset(names_of(listed)),
        locked=locked_requirements(read),
        own=own,
        extras=offered(project, config, own),
        groups=grouped(project, own),
    )


def _notes(remark: str, *, packaged: bool, brought: Sequence[str]) -> tuple[str, ...]:
    """What a person should know of the setup."""
    said = {
        remark: bool(remark),
        "no packaging was found: R is importable from its root alone": not packaged,
        f"Setup installs what the fix adds to the requirements: {', '.join(brought)}.": bool(brought),
    }
    return tuple(note for note, holds in said.items() if holds)


def _plans(found: Mapping[str, Sequence[str]], folder: str, env: Mapping[str, str]) -> tuple[Plan, ...]:
    """One command for each way to install, and none twice."""
    plans: list[Plan] = []
    for name, words in found.items():
        placed = [f"{folder}/{word}" if folder and before == "-r" else word
                  for before, word in itertools.pairwise(["", *words])]  # fmt: skip
        command = _INSTALL + " ".join(shlex.quote(word) for word in placed)
        if command not in [plan.commands[0] for plan in plans]:
            plans.append(Plan(name, (command,), env))
    return tuple(plans)


def together(found: Sequence[Detected]) -> Detected:
    """Several projects of one repository in one environment; the first is the one that decides where only one can."""
    first = found[0]
    if len(found) == 1:
        return first
    longest = max((one.plans for one in found), key=len)
    plans: list[Plan] = []
    for number, plan in enumerate(longest):
        some = [one.plans[min(number, len(one.plans) - 1)] for one in found]
        words = " ".join(one.commands[0].removeprefix(_INSTALL) for one in some)
        env = {name: value for one in reversed(some) for name, value in one.env.items()}
        plans.append(Plan(plan.name, (f"{_INSTALL}{words}",), env))
    editable = tuple(place for one in found for place in one.editable)
    return dataclasses.replace(
        first,
        plans=tuple(plans),
        options=tuple(
            word for options in unique([shlex.join(one.options) for one in found]) for word in shlex.split(options)
        ),
        editable=editable,
        notes=tuple(
            unique([*(note for one in found for note in one.notes), f"Installed together: {', '.join(editable)}."])
        ),
        named=frozenset().union(*(one.named for one in found)),
        own=frozenset().union(*(one.own for one in found)),
        extras={name: lines for one in reversed(found) for name, lines in one.extras.items()},
        groups={name: lines for one in reversed(found) for name, lines in one.groups.items()},
    )


def brought(before: Read, after: Read) -> tuple[str, ...]:
    """Requirements that a fix brings along: projects that packaging names after it and not before."""
    known = {normal_name(name) for name in names_of(_stated(before))}
    own = {normal_name(name) for name in own_names(*_packaging(after))}
    lines = [line for line in _stated(after) if (name := names_of([line])) and normal_name(name[0]) not in known | own]
    return tuple(unique(lines))


def _packaging(read: Read) -> tuple[Mapping[str, object], configparser.RawConfigParser, str]:
    return with_tool_files(toml_of(read("pyproject.toml")), read), ini_of(read("setup.cfg")), read("setup.py") or ""


def is_packaged(read: Read) -> bool:
    """Whether something can be installed: a pyproject.toml may hold nothing but settings of tools."""
    return _is_packaged(*_packaging(read))


def _is_packaged(project: Mapping[str, object], config: configparser.RawConfigParser, script: str) -> bool:
    return bool(script or builds(project) or config.has_section("metadata"))


def _stated(read: Read) -> list[str]:
    """All that packaging says is needed to run or to test."""
    project, config, script = _packaging(read)
    told = hints(read, project, config)
    tests = [*group_requirements(project), *told.grouped]
    tests += told.requirements if told.together or not tests else ()
    files = [name for name in (*REQUIREMENT_FILES, "requirements.txt") if read(name) is not None]
    found = [*tests, *file_requirements(read, files), *to_run(project, config, script)]
    for extra in (*extras_for_tests(project, config, script), *told.extras):
        found += strings(at(project, "project", "optional-dependencies", extra))
    return [*found, *script_requirements(script, "tests_require")]


# --- the runner --------------------------------------------------------------------------------------------------


def _runner_needs(
    read: Read, project: Mapping[str, object], config: configparser.RawConfigParser
) -> tuple[list[str], list[str]]:
    """Plugins that the configuration takes for granted, and options that undo what would get in the way."""
    settings: dict[str, str] = {}
    # Since pytest 9 the table itself may hold settings, and a file of its own.
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
    """R has no tags, so a version that is drawn from them has to be told."""
    text = f"{strings(at(project, 'build-system', 'requires'))} {script} {[dict(config.items(one)) for one in config.sections()]}"
    match = re.search(r"\d+(\.\d+)*", release or "")
    version = match[0] if match else "0.1"
    return {variable: version for tool, variable in _SCM.items() if re.search(tool, text)}
