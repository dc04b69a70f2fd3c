"""How a repository of some day is made ready for its tests: from its packaging, its test requirements and its runner's needs.

Pure: reads through a function it is given. What is found is a list of plans, the most faithful first; running them decides.
"""

from __future__ import annotations

import configparser
import itertools
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agentbench.authoring.pythons import choose_python

Read = Callable[[str], str | None]

_TEST_NAMES = ("test", "tests", "testing", "test-requirements", "dev", "develop", "development")
_REQUIREMENT_FILES = (
    "requirements/tests.txt", "requirements/test.txt", "requirements-tests.txt", "requirements-test.txt",
    "requirements_test.txt", "test-requirements.txt", "test_requirements.txt", "tests/requirements.txt",
    "test/requirements.txt", "requirements/dev.txt", "requirements-dev.txt", "requirements_dev.txt", "dev-requirements.txt",
)  # fmt: skip
_OPTION_PLUGINS = {"--cov": "pytest-cov", "-n": "pytest-xdist", "--numprocesses": "pytest-xdist", "--timeout": "pytest-timeout",
                   "--benchmark": "pytest-benchmark", "--asyncio": "pytest-asyncio", "--mypy": "pytest-mypy-plugins",
                   "--flake8": "pytest-flake8", "--randomly": "pytest-randomly", "--doctest-plus": "pytest-doctestplus"}  # fmt: skip
_KEY_PLUGINS = {
    "asyncio_mode": "pytest-asyncio",
    "timeout": "pytest-timeout",
    "mock_use_standalone_module": "pytest-mock",
}
_SCM = ("setuptools_scm", "setuptools-scm", "hatch-vcs", "vcs-versioning", "poetry-dynamic-versioning", "flit_scm")


@dataclass(frozen=True, slots=True)
class Plan:
    """One way to make R ready."""

    name: str
    commands: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Detected:
    plans: tuple[Plan, ...]
    python: str
    options: tuple[str, ...]
    """For pytest, so that what R configures does not get in the way: one process, no coverage."""
    editable: str
    """What is installed from R itself; empty when nothing is."""
    notes: tuple[str, ...]
    named: frozenset[str] = frozenset()
    """Projects that packaging and requirement files name: what is asked of the index about them."""
    own: frozenset[str] = frozenset()
    """What the project itself is called, as far as can be read: R is not held to a release of its own."""


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


def detect(read: Read, around: Circumstances) -> Detected:
    """Find out how to set R up.

    Raises:
        Unsuitable: none of the interpreters here fits.
    """
    project = _toml(read("pyproject.toml"))
    config = _ini(read("setup.cfg"))
    script = read("setup.py") or ""
    packaged = bool(script or _builds(project) or config.has_section("metadata"))
    python, remark = choose_python(project, config, script, around.date, around.pythons, around.default_python)
    extras = _extras(project, config, script)
    groups = _group_requirements(project)
    tox = _tox_requirements(read("tox.ini"), config, project)
    files = [name for name in _REQUIREMENT_FILES if read(name) is not None][:1]
    plugins, options = _runner_needs(read, project, config)
    env = _versioning(project, config, script, around.release)
    place = f"./{around.folder}" if around.folder else "."
    base = ["-e", f"{place}[{','.join(extras)}]" if extras else place] if packaged else _plain_requirements(read)
    needs = _unique(["pytest", *plugins])
    named = [*groups, *([] if groups else tox)]
    found = {
        "the project's own test requirements": [
            *base,
            *(["-r", files[0]] if files and not (extras or groups) else []),
            *named,
            *needs,
        ],
        "test requirements without pins": [*base, *_unpinned([*named, *_file_requirements(read, files)]), *needs],
        "what the tests import": [*(["-e", place] if packaged else []), *around.imports, *needs],
    }
    plans: list[Plan] = []
    for name, words in found.items():
        placed = [f"{around.folder}/{word}" if around.folder and before == "-r" else word
                  for before, word in itertools.pairwise(["", *words])]  # fmt: skip
        command = "python -m pip install " + " ".join(shlex.quote(word) for word in placed)
        if command not in [plan.commands[0] for plan in plans]:
            plans.append(Plan(name, (command,), env))
    notes = [
        *([remark] if remark else []),
        *([] if packaged else ["no packaging was found: R is importable from its root alone"]),
    ]
    listed = [*named, *_file_requirements(read, files), *_declared(project), *needs, *around.imports]
    editable = place if packaged else ""
    own = frozenset(_own_names(project, config, script))
    return Detected(tuple(plans), python, tuple(options), editable, tuple(notes), frozenset(_names(listed)), own)


# --- files -------------------------------------------------------------------------------------------------------


def _toml(text: str | None) -> Mapping[str, object]:
    try:
        return tomllib.loads(text or "")
    except tomllib.TOMLDecodeError:
        return {}


def _ini(text: str | None) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text or "")
    except configparser.Error:
        return configparser.RawConfigParser()
    return parser


def at(data: object, *keys: str) -> object:
    """What lies below some keys; None where one is missing."""
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def _strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _builds(project: Mapping[str, object]) -> bool:
    return any(
        at(project, *keys) is not None
        for keys in (("project", "name"), ("build-system",), ("tool", "poetry", "name"), ("tool", "flit"))
    )


def _unique(items: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(items))


# --- requirements ------------------------------------------------------------------------------------------------


def _extras(project: Mapping[str, object], config: configparser.RawConfigParser, script: str) -> list[str]:
    known = [*(at(project, "project", "optional-dependencies") or {}), *(at(project, "tool", "poetry", "extras") or {})]  # type: ignore[misc]
    if config.has_section("options.extras_require"):
        known += config.options("options.extras_require")
    if "extras_require" in script:
        known += re.findall(
            r"""["'](tests?|testing|dev|develop)["']\s*[:\]]""", script[script.index("extras_require") :]
        )
    for name in _TEST_NAMES:
        if name in known:
            return [name]
    return []


def _group_requirements(project: Mapping[str, object]) -> list[str]:
    groups = at(project, "dependency-groups")
    if isinstance(groups, Mapping):
        for name in _TEST_NAMES:
            if name in groups:
                return _expand(groups, name, ())
    for keys in (("group", "test"), ("group", "tests"), ("group", "dev"), ()):
        where = ("tool", "poetry", *keys, "dependencies" if keys else "dev-dependencies")
        listed = at(project, *where)
        if isinstance(listed, Mapping):
            return [f"{name}{_poetry_version(value)}" for name, value in listed.items() if name != "python"]
    return _strings(at(project, "tool", "pdm", "dev-dependencies", "test"))


def _expand(groups: Mapping[str, object], name: str, seen: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    items = groups.get(name)
    for item in items if isinstance(items, list) and name not in seen else ():
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, Mapping) and isinstance(item.get("include-group"), str):
            found += _expand(groups, str(item["include-group"]), (*seen, name))
    return found


def _poetry_version(value: object) -> str:
    text = value if isinstance(value, str) else at(value, "version")
    match = re.fullmatch(r"\s*[\^~]\s*([0-9.]+)\s*", text) if isinstance(text, str) else None
    if match:
        return f">={match[1]}"
    return text if isinstance(text, str) and text[:1] in "<>=!" else ""


def _tox_requirements(
    text: str | None, config: configparser.RawConfigParser, project: Mapping[str, object]
) -> list[str]:
    legacy = at(project, "tool", "tox", "legacy_tox_ini")
    tox = _ini(text if text is not None else legacy if isinstance(legacy, str) else None)
    section = "testenv" if tox.has_section("testenv") else ""
    lines = tox.get(section, "deps", fallback="").splitlines() if section else []
    if config.has_option("options", "tests_require"):
        lines += config.get("options", "tests_require").splitlines()
    words: list[str] = []
    for line in (line.strip() for line in lines):
        if not line or line.startswith("#") or "{" in line or re.match(r"[\w,-]+:\s", line):
            continue
        if line.startswith("-r"):
            words += ["-r", line[2:].strip()]
        elif not line.startswith("-"):
            words.append(line)
    return words


def _plain_requirements(read: Read) -> list[str]:
    return ["-r", "requirements.txt"] if read("requirements.txt") is not None else []


def _file_requirements(read: Read, files: Sequence[str]) -> list[str]:
    lines = [line.split("#")[0].strip() for name in files for line in (read(name) or "").splitlines()]
    return [line for line in lines if re.match(r"[A-Za-z0-9]", line)]


def _declared(project: Mapping[str, object]) -> list[str]:
    """What a project says it needs: to be built, to run, and for its extras."""
    extras = at(project, "project", "optional-dependencies")
    found = [*_strings(at(project, "build-system", "requires")), *_strings(at(project, "project", "dependencies"))]
    for listed in extras.values() if isinstance(extras, Mapping) else ():
        found += _strings(listed)
    return found


def _own_names(project: Mapping[str, object], config: configparser.RawConfigParser, script: str) -> list[str]:
    places = (("project", "name"), ("tool", "poetry", "name"), ("tool", "flit", "metadata", "module"))
    found = [name for keys in places if isinstance(name := at(project, *keys), str)]
    found += re.findall(r"""\bname\s*=\s*["']([A-Za-z0-9._-]+)["']""", script)
    return [*found, *([config.get("metadata", "name")] if config.has_option("metadata", "name") else [])]


def _names(requirements: Sequence[str]) -> list[str]:
    return [name.partition("[")[0] for name in _unpinned(requirements)]


def _unpinned(requirements: Sequence[str]) -> list[str]:
    names = [match[0] for one in requirements if (match := re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[\w, -]+\])?", one))]
    return _unique([name for name in names if not name.endswith((".txt", ".in"))])


# --- the runner --------------------------------------------------------------------------------------------------


def _runner_needs(
    read: Read, project: Mapping[str, object], config: configparser.RawConfigParser
) -> tuple[list[str], list[str]]:
    """Plugins that the configuration takes for granted, and options that undo what would get in the way."""
    settings: dict[str, str] = {}
    table = at(project, "tool", "pytest", "ini_options")
    if isinstance(table, Mapping):
        settings |= {
            key: " ".join(_strings(value)) if isinstance(value, list) else str(value) for key, value in table.items()
        }
    parsers = [
        (config, "tool:pytest"),
        *((_ini(read(name)), "pytest") for name in ("tox.ini", "pytest.ini", ".pytest.ini")),
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
    options = [*(["-n", "0"] if "pytest-xdist" in plugins else []), *(["--no-cov"] if "pytest-cov" in plugins else [])]
    return _unique(plugins), options


def _versioning(
    project: Mapping[str, object], config: configparser.RawConfigParser, script: str, release: str | None
) -> dict[str, str]:
    """R has no tags, so a version that is drawn from them has to be told."""
    text = f"{_strings(at(project, 'build-system', 'requires'))} {script} {[dict(config.items(one)) for one in config.sections()]}"
    if not any(name in text for name in _SCM):
        return {}
    match = re.search(r"\d+(\.\d+)*", release or "")
    version = match[0] if match else "0.1"
    return {"SETUPTOOLS_SCM_PRETEND_VERSION": version, "PBR_VERSION": version}
