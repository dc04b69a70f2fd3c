"""Read test requirements from a repository: extras, dependency groups, requirement files, setup.py, tox, nox, Hatch. Pure."""

from __future__ import annotations

import ast
import configparser
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from agentbench.core.dataclass import dataclass
from agentbench.core.package_name import normal_name
from agentbench.core.python_syntax import parse_or_none

Read = Callable[[str], str | None]

_TEST_NAMES = ("test", "tests", "testing", "test-requirements", "dev", "develop", "development")
_IMPORTED_AS = {"yaml": "pyyaml", "dateutil": "python-dateutil", "attr": "attrs", "PIL": "pillow", "sklearn": "scikit-learn",
                "bs4": "beautifulsoup4", "mock": "mock", "pkg_resources": "setuptools", "google": "", "_pytest": "pytest"}  # fmt: skip
REQUIREMENT_FILES = (
    "requirements/tests.txt", "requirements/test.txt", "requirements-tests.txt", "requirements-test.txt",
    "requirements_test.txt", "test-requirements.txt", "test_requirements.txt", "tests/requirements.txt",
    "test/requirements.txt", "requirements/testing.txt", "requirements-testing.txt", "requirements/dev.txt", "requirements-dev.txt", "requirements_dev.txt", "dev-requirements.txt",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OWN_EXTRAS = re.compile(r"(?:-e\s*)?\.\[([\w,. -]+)\]")
"""The project itself with extras, written as a requirement."""


# --- files -------------------------------------------------------------------------------------------------------


def toml_of(text: str | None) -> Mapping[str, object]:
    try:
        return tomllib.loads(text or "")
    except tomllib.TOMLDecodeError:
        return {}


def ini_of(text: str | None) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text or "")
    except configparser.Error:
        return configparser.RawConfigParser()
    return parser


def at(data: object, *keys: str) -> object:
    """Return the value below some keys, or None if a key is missing."""
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def has_build_backend(project: Mapping[str, object]) -> bool:
    return any(
        at(project, *keys) is not None
        for keys in (("project", "name"), ("build-system",), ("tool", "poetry", "name"), ("tool", "flit"))
    )


def unique(items: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(items))


# --- requirements ------------------------------------------------------------------------------------------------


def extras_for_tests(project: Mapping[str, object], config: configparser.RawConfigParser, script: str) -> list[str]:
    tables = (at(project, "project", "optional-dependencies"), at(project, "tool", "poetry", "extras"))
    names = [str(name) for table in tables if isinstance(table, Mapping) for name in table]
    if config.has_section("options.extras_require"):
        names += config.options("options.extras_require")
    if "extras_require" in script:
        names += re.findall(
            r"""["'](tests?|testing|dev|develop)["']\s*[:\]]""", script[script.index("extras_require") :]
        )
    for name in _TEST_NAMES:
        if name in names:
            return [name]
    return []


def group_requirements(project: Mapping[str, object]) -> list[str]:
    groups = at(project, "dependency-groups")
    if isinstance(groups, Mapping):
        for name in _TEST_NAMES:
            if name in groups:
                return expand_group(groups, name)
    for keys in (("group", "test"), ("group", "tests"), ("group", "dev"), ()):
        where = ("tool", "poetry", *keys, "dependencies" if keys else "dev-dependencies")
        listed = at(project, *where)
        if isinstance(listed, Mapping):
            return _poetry_lines(listed)
    others = [strings(at(project, "tool", "pdm", "dev-dependencies", name)) for name in _TEST_NAMES]
    others.append(strings(at(project, "tool", "uv", "dev-dependencies")))
    return next((lines for lines in others if lines), [])


def expand_group(groups: Mapping[str, object], name: str, parents: tuple[str, ...] = ()) -> list[str]:
    """Return the requirements of a dependency group and of the groups that it includes."""
    lines: list[str] = []
    items = groups.get(name)
    for item in items if isinstance(items, list) and name not in parents else ():
        if isinstance(item, str):
            lines.append(item)
        elif isinstance(item, Mapping) and isinstance(item.get("include-group"), str):
            lines += expand_group(groups, str(item["include-group"]), (*parents, name))
    return lines


def _poetry_lines(listed: object) -> list[str]:
    table = listed if isinstance(listed, Mapping) else {}
    return [f"{name}{_poetry_version(value)}" for name, value in table.items() if name != "python"]


def _poetry_version(value: object) -> str:
    text = value if isinstance(value, str) else at(value, "version")
    match = re.fullmatch(r"\s*[\^~]\s*([0-9.]+)\s*", text) if isinstance(text, str) else None
    if match:
        return f">={match[1]}"
    return text if isinstance(text, str) and text[:1] in "<>=!" else ""


def locked_requirements(read: Read) -> tuple[str, ...]:
    """Return the versions in a lock file of uv, Poetry or PDM as `name==version`, if a name has only one version."""
    for file in ("uv.lock", "poetry.lock", "pdm.lock"):
        packages = at(toml_of(read(file)), "package")
        versions_by_name: dict[str, set[str]] = {}
        for package in packages if isinstance(packages, list) else ():
            name, version, source = (at(package, key) for key in ("name", "version", "source"))
            # uv also lists the project itself and local folders, which are not releases.
            if isinstance(name, str) and isinstance(version, str) and (source is None or at(source, "registry")):
                versions_by_name.setdefault(name, set()).add(version)
        if versions_by_name:
            single = {name: min(versions) for name, versions in versions_by_name.items() if len(versions) == 1}
            return tuple(sorted(f"{name}=={version}" for name, version in single.items()))
    return ()


def plain_requirements(read: Read) -> list[str]:
    return ["-r", "requirements.txt"] if read("requirements.txt") is not None else []


def file_requirements(read: Read, files: Sequence[str]) -> list[str]:
    lines = [line.split("#")[0].strip() for name in files for line in (read(name) or "").splitlines()]
    return [line for line in lines if re.match(r"[A-Za-z0-9]", line)]


def declared_requirements(
    project: Mapping[str, object], config: configparser.RawConfigParser, script: str
) -> list[str]:
    """Return everything a project declares: for its build, to run, and in its extras."""
    extras = at(project, "project", "optional-dependencies")
    lines = [*strings(at(project, "build-system", "requires")), *runtime_requirements(project, config, script)]
    for extra_lines in extras.values() if isinstance(extras, Mapping) else ():
        lines += strings(extra_lines)
    return lines


def runtime_requirements(project: Mapping[str, object], config: configparser.RawConfigParser, script: str) -> list[str]:
    lines = strings(at(project, "project", "dependencies"))
    lines += _poetry_lines(at(project, "tool", "poetry", "dependencies"))
    if config.has_option("options", "install_requires"):
        lines += [line.strip() for line in config.get("options", "install_requires").splitlines() if line.strip()]
    return [*lines, *script_requirements(script, "install_requires")]


def script_requirements(script: str, key: str) -> list[str]:
    """Read a list that setup.py passes to `setup()` as a literal or by the name of a literal."""
    tree = parse_or_none(script)
    if tree is None:
        return []
    assigned = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == key:
            value = assigned.get(node.value.id) if isinstance(node.value, ast.Name) else node.value
            return string_constants(value.elts) if isinstance(value, ast.List | ast.Tuple) else []
    return []


def string_constants(nodes: Sequence[ast.expr]) -> list[str]:
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def own_names(project: Mapping[str, object], config: configparser.RawConfigParser, script: str) -> list[str]:
    keys_of_name = (("project", "name"), ("tool", "poetry", "name"), ("tool", "flit", "metadata", "module"))
    names = [name for keys in keys_of_name if isinstance(name := at(project, *keys), str)]
    names += re.findall(r"""\bname\s*=\s*["']([A-Za-z0-9._-]+)["']""", script)
    return [*names, *([config.get("metadata", "name")] if config.has_option("metadata", "name") else [])]


def distribution_of(module: str) -> str:
    """Guess the distribution of a module from its name; empty if it cannot be guessed."""
    return _IMPORTED_AS.get(module, module)


def extras_of(
    project: Mapping[str, object], config: configparser.RawConfigParser, own: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """Return the requirements of each extra, without the project itself (`all = ["mine[a,b]"]`)."""
    table = at(project, "project", "optional-dependencies")
    extras = {str(name): strings(lines) for name, lines in table.items()} if isinstance(table, Mapping) else {}
    if config.has_section("options.extras_require"):
        extras |= {name: text.splitlines() for name, text in config.items("options.extras_require")}
    return {
        name: tuple(line.strip() for line in lines if line.strip()) for name, lines in _without(own, extras).items()
    }


def groups_of(project: Mapping[str, object], own: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the requirements of each dependency group (PEP 735, Poetry, PDM), without the project itself."""
    by_group: dict[str, list[str]] = {}
    poetry = at(project, "tool", "poetry", "group")
    for name, table in poetry.items() if isinstance(poetry, Mapping) else ():
        by_group[str(name)] = _poetry_lines(at(table, "dependencies"))
    by_group["dev"] = [*by_group.get("dev", ()), *_poetry_lines(at(project, "tool", "poetry", "dev-dependencies"))]
    pdm = at(project, "tool", "pdm", "dev-dependencies")
    by_group |= {str(name): strings(lines) for name, lines in pdm.items()} if isinstance(pdm, Mapping) else {}
    groups = at(project, "dependency-groups")
    by_group |= {str(name): expand_group(groups, str(name)) for name in groups} if isinstance(groups, Mapping) else {}
    return {name: tuple(lines) for name, lines in _without(own, by_group).items() if lines}


def _without(own: Iterable[str], lines_by_name: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Drop the lines that name the project itself."""
    own_names = {normal_name(name) for name in own}
    return {
        key: [line for line in lines if not {normal_name(name) for name in names_of([line])} & own_names]
        for key, lines in lines_by_name.items()
    }


def lines_naming(words: Iterable[str], lines_by_name: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the requirements in extras or groups whose project some word names, one per project."""
    wanted = {normal_name(name) for word in words for name in (word, distribution_of(word)) if name}
    lines_by_project: dict[str, str] = {}
    for line in (line for lines in lines_by_name.values() for line in lines):
        project = next((normal_name(name) for name in names_of([line])), "")
        if project in wanted:
            lines_by_project.setdefault(project, line)
    return list(lines_by_project.values())


def lines_for_module(module: str, extras: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return what a project's extras install for a module: the extra of that name, or the first line that names it."""
    names = {normal_name(module), normal_name(distribution_of(module))} - {""}
    for extra, lines in extras.items():
        if normal_name(extra) in names:
            return tuple(lines)
    all_lines = (line for lines in extras.values() for line in lines)
    return next(((line,) for line in all_lines if {normal_name(name) for name in names_of([line])} & names), ())


def names_of(requirements: Sequence[str]) -> list[str]:
    return [name.partition("[")[0] for name in unpinned(requirements)]


def unpinned(requirements: Sequence[str]) -> list[str]:
    pattern = r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[\w, -]+\])?"
    names = [match[0] for line in requirements if (match := re.match(pattern, line))]
    return unique([name for name in names if not name.endswith((".txt", ".in"))])


# --- test runners ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hints:
    """Packages that a test runner configuration installs."""

    requirements: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    """Extras of the project."""
    grouped: tuple[str, ...] = ()
    """Requirements from dependency groups."""
    with_groups: bool = False
    """True if the requirements are installed in addition to the groups."""


def with_tool_files(project: Mapping[str, object], read: Read) -> Mapping[str, object]:
    """Merge tox.toml and hatch.toml into pyproject.toml's `tool` table."""
    tools = at(project, "tool")
    merged: dict[str, object] = dict(tools) if isinstance(tools, Mapping) else {}
    for tool in ("tox", "hatch"):
        inside, file = merged.get(tool), toml_of(read(f"{tool}.toml"))
        if file and (tool == "hatch" or not inside):  # tox reads only one of its files
            merged[tool] = {**(inside if isinstance(inside, Mapping) else {}), **file}
    return {**project, "tool": merged} if merged else project


def hints(read: Read, project: Mapping[str, object], config: configparser.RawConfigParser, python: str = "") -> Hints:
    """Read requirements from tox, else nox, and from Hatch's test environment.

    Hatch's default environment counts if it has no test environment and the project has no group for tests.
    """
    tox = _tox(read("tox.ini"), project, python)
    lines = list(tox.requirements)
    if config.has_option("options", "tests_require"):
        lines += _words(config.get("options", "tests_require").splitlines(), python)
    hatch = _hatch(project, ("hatch-test", "test", "tests", "testing"))
    if hatch == Hints() and not group_requirements(project):
        hatch = _hatch(project, ("default",))
    return Hints(
        requirements=tuple(lines or nox_requirements(read("noxfile.py"))),
        extras=tuple(unique([*tox.extras, *hatch.extras])),
        grouped=tuple(unique([*tox.grouped, *hatch.grouped, *hatch.requirements])),
        with_groups=bool(tox.grouped),
    )


# --- tox ---------------------------------------------------------------------------------------------------------


def _tox(text: str | None, project: Mapping[str, object], python: str) -> Hints:
    """Read what tox's test environments install, from its INI form or else from its TOML form."""
    legacy = at(project, "tool", "tox", "legacy_tox_ini")
    ini = ini_of(text if text is not None else legacy if isinstance(legacy, str) else None)
    settings: dict[str, list[str]] = {"deps": [], "extras": [], "dependency_groups": []}
    if ini.has_section("testenv"):
        settings = {key: ini.get("testenv", key, fallback="").splitlines() for key in settings}
    elif text is None and not legacy:
        tables = [at(project, "tool", "tox", "env_run_base"), at(project, "tool", "tox", "testenv")]
        short = python.replace(".", "")
        names = ("test", "tests", "py", "py3", *((python, f"py{short}") if short else ()))
        tables += [at(project, "tool", "tox", "env", name) for name in names]
        settings = {key: [line for table in tables for line in _lines(at(table, key))] for key in settings}
    return Hints(
        tuple(_words(settings["deps"], python)),
        tuple(unique([*_names(settings["extras"], python), *_own_extras(settings["deps"], python)])),
        tuple(_group_requirements(project, _names(settings["dependency_groups"], python))),
    )


def _lines(value: object) -> list[str]:
    return value.splitlines() if isinstance(value, str) else strings(value)


def _expand(raw: str, python: str) -> str:
    """Expand a line of tox for `python`; empty if it is only for other environments (`py{3,311}: …`)."""
    return _for_python(
        re.sub(r"\{(?:toxinidir|tox_root)\}(/?)", lambda match: "" if match[1] else ".", raw.strip()), python
    )


def _words(lines: Sequence[str], python: str) -> list[str]:
    """Return the lines as arguments of `pip install`."""
    words: list[str] = []
    for line in (_expand(raw, python) for raw in lines):
        if not line or line.startswith("#") or "{" in line:
            continue
        if line.startswith("-r"):
            words += ["-r", line[2:].strip()]
        elif not line.startswith(("-", ".")):
            words.append(line)
    return words


def _own_extras(lines: Sequence[str], python: str) -> list[str]:
    matches = (_OWN_EXTRAS.fullmatch(_expand(raw, python)) for raw in lines)
    return [name for match in matches if match for name in _names([match[1]], python)]


def _names(lines: Sequence[str], python: str) -> list[str]:
    """Return names of extras or groups, which may be separated by commas."""
    applicable = [_for_python(line.strip(), python) for line in lines]
    return unique([name for line in applicable for part in line.split(",") if _NAME.fullmatch(name := part.strip())])


def _group_requirements(project: Mapping[str, object], names: Sequence[str]) -> list[str]:
    groups = at(project, "dependency-groups")
    return (
        unique([line for name in names for line in expand_group(groups, name)]) if isinstance(groups, Mapping) else []
    )


def _for_python(line: str, python: str) -> str:
    """Return a tox line without its factor condition if it applies to an environment such as `py311`, else empty."""
    match = re.match(r"([\w!,.{}-]+):\s+(?=\S)", line)
    if match is None:
        return line
    short = python.replace(".", "")
    names = {name for factor in re.split(r",(?![^{]*\})", match[1]) for name in _alternatives(factor)}
    return line[match.end() :] if names & {"py", "py3", f"py{short}" if short else "py"} else ""


def _alternatives(factor: str) -> list[str]:
    """Expand `py{3,311}` to `py3` and `py311`."""
    match = re.fullmatch(r"([^{}]*)\{([^{}]*)\}([^{}]*)", factor)
    return [f"{match[1]}{part.strip()}{match[3]}" for part in match[2].split(",")] if match else [factor]


# --- nox ---------------------------------------------------------------------------------------------------------


def nox_requirements(text: str | None) -> list[str]:
    """Return what the first nox session with "test" in its name installs."""
    tree = parse_or_none(text or "")
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef) and "test" in node.name.lower():
            words = [word for call in _installs(node) for word in call]
            if words:
                return unique(words)
    return []


def _installs(function: ast.FunctionDef) -> Iterator[list[str]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "install":
            words = string_constants(node.args)
            # Requirement files and the project itself are handled elsewhere.
            yield [word for word in words if re.match(r"[A-Za-z0-9]", word) and not word.endswith((".txt", ".in"))]


# --- hatch -------------------------------------------------------------------------------------------------------


def _hatch(project: Mapping[str, object], names: Sequence[str]) -> Hints:
    """Read the first of some environments that installs anything."""
    for name in names:
        table = at(project, "tool", "hatch", "envs", name)
        lines = [*strings(at(table, "dependencies")), *strings(at(table, "extra-dependencies"))]
        features = [name for name in strings(at(table, "features")) if _NAME.fullmatch(name)]
        grouped = _group_requirements(project, strings(at(table, "dependency-groups")))
        if lines or features or grouped:
            # Only Hatch can expand braces.
            return Hints(tuple(line for line in lines if "{" not in line), tuple(features), tuple(grouped))
    return Hints()
