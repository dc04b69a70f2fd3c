"""Read test requirements from a repository: extras, dependency groups, requirement files, setup.py. Pure."""

from __future__ import annotations

import ast
import configparser
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence

from agentbench.core.python_syntax import parse_or_none
from agentbench.workspace.source.package_index import normal_name

Read = Callable[[str], str | None]

_TEST_NAMES = ("test", "tests", "testing", "test-requirements", "dev", "develop", "development")
_IMPORTED_AS = {"yaml": "pyyaml", "dateutil": "python-dateutil", "attr": "attrs", "PIL": "pillow", "sklearn": "scikit-learn",
                "bs4": "beautifulsoup4", "mock": "mock", "pkg_resources": "setuptools", "google": "", "_pytest": "pytest"}  # fmt: skip
REQUIREMENT_FILES = (
    "requirements/tests.txt", "requirements/test.txt", "requirements-tests.txt", "requirements-test.txt",
    "requirements_test.txt", "test-requirements.txt", "test_requirements.txt", "tests/requirements.txt",
    "test/requirements.txt", "requirements/testing.txt", "requirements-testing.txt", "requirements/dev.txt", "requirements-dev.txt", "requirements_dev.txt", "dev-requirements.txt",
)  # fmt: skip


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
    known = [str(name) for table in tables if isinstance(table, Mapping) for name in table]
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
