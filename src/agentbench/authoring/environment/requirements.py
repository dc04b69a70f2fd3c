"""What a repository says its tests need: extras, groups, requirement files, setup.py. Pure."""

from __future__ import annotations

import ast
import configparser
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence

from agentbench.core.python_syntax import parse as parse_python
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
    """What lies below some keys; None where one is missing."""
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def builds(project: Mapping[str, object]) -> bool:
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
                return expanded(groups, name)
    for keys in (("group", "test"), ("group", "tests"), ("group", "dev"), ()):
        where = ("tool", "poetry", *keys, "dependencies" if keys else "dev-dependencies")
        listed = at(project, *where)
        if isinstance(listed, Mapping):
            return _poetry_lines(listed)
    others = [strings(at(project, "tool", "pdm", "dev-dependencies", name)) for name in _TEST_NAMES]
    others.append(strings(at(project, "tool", "uv", "dev-dependencies")))
    return next((found for found in others if found), [])


def expanded(groups: Mapping[str, object], name: str, seen: tuple[str, ...] = ()) -> list[str]:
    """A dependency group with those that it includes."""
    found: list[str] = []
    items = groups.get(name)
    for item in items if isinstance(items, list) and name not in seen else ():
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, Mapping) and isinstance(item.get("include-group"), str):
            found += expanded(groups, str(item["include-group"]), (*seen, name))
    return found


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
    """What a lock file of uv, Poetry or PDM holds, as `name==version`; without what it has in several versions."""
    for file in ("uv.lock", "poetry.lock", "pdm.lock"):
        packages = at(toml_of(read(file)), "package")
        found: dict[str, set[str]] = {}
        for package in packages if isinstance(packages, list) else ():
            name, version, source = (at(package, key) for key in ("name", "version", "source"))
            # uv says where each comes from: R itself and folders beside it are no releases.
            if isinstance(name, str) and isinstance(version, str) and (source is None or at(source, "registry")):
                found.setdefault(name, set()).add(version)
        if found:
            return tuple(sorted(f"{name}=={min(versions)}" for name, versions in found.items() if len(versions) == 1))
    return ()


def plain_requirements(read: Read) -> list[str]:
    return ["-r", "requirements.txt"] if read("requirements.txt") is not None else []


def file_requirements(read: Read, files: Sequence[str]) -> list[str]:
    lines = [line.split("#")[0].strip() for name in files for line in (read(name) or "").splitlines()]
    return [line for line in lines if re.match(r"[A-Za-z0-9]", line)]


def declared(project: Mapping[str, object], config: configparser.RawConfigParser, script: str) -> list[str]:
    """What a project says it needs: to be built, to run, and for its extras."""
    extras = at(project, "project", "optional-dependencies")
    found = [*strings(at(project, "build-system", "requires")), *to_run(project, config, script)]
    for listed in extras.values() if isinstance(extras, Mapping) else ():
        found += strings(listed)
    return found


def to_run(project: Mapping[str, object], config: configparser.RawConfigParser, script: str) -> list[str]:
    found = strings(at(project, "project", "dependencies"))
    poetry = at(project, "tool", "poetry", "dependencies")
    if isinstance(poetry, Mapping):
        found += [f"{name}{_poetry_version(value)}" for name, value in poetry.items() if name != "python"]
    if config.has_option("options", "install_requires"):
        found += [line.strip() for line in config.get("options", "install_requires").splitlines() if line.strip()]
    return [*found, *script_requirements(script, "install_requires")]


def script_requirements(script: str, key: str) -> list[str]:
    """A list that setup.py gives as it stands, or by a name it stands under."""
    tree = parsed(script)
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
            return constants(value.elts) if isinstance(value, ast.List | ast.Tuple) else []
    return []


def constants(nodes: Sequence[ast.expr]) -> list[str]:
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def parsed(text: str) -> ast.AST | None:
    try:
        return parse_python(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # of Python 2, say
        return None


def own_names(project: Mapping[str, object], config: configparser.RawConfigParser, script: str) -> list[str]:
    places = (("project", "name"), ("tool", "poetry", "name"), ("tool", "flit", "metadata", "module"))
    found = [name for keys in places if isinstance(name := at(project, *keys), str)]
    found += re.findall(r"""\bname\s*=\s*["']([A-Za-z0-9._-]+)["']""", script)
    return [*found, *([config.get("metadata", "name")] if config.has_option("metadata", "name") else [])]


def distribution_of(module: str) -> str:
    """What to install for a module, as far as names tell; empty where they do not."""
    return _IMPORTED_AS.get(module, module)


def offered(
    project: Mapping[str, object], config: configparser.RawConfigParser, own: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """What every extra brings, the project itself (`all = ["mine[a,b]"]`) apart."""
    mine = {normal_name(name) for name in own}
    table = at(project, "project", "optional-dependencies")
    found = {str(name): strings(lines) for name, lines in table.items()} if isinstance(table, Mapping) else {}
    if config.has_section("options.extras_require"):
        found |= {name: text.splitlines() for name, text in config.items("options.extras_require")}
    kept = {name: [line for line in lines if not {normal_name(one) for one in names_of([line])} & mine]
            for name, lines in found.items()}  # fmt: skip
    return {name: tuple(line.strip() for line in lines if line.strip()) for name, lines in kept.items()}


def grouped(project: Mapping[str, object], own: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """What every dependency group brings, the project itself apart: of the standard, of Poetry and of PDM."""
    mine = {normal_name(name) for name in own}
    found: dict[str, list[str]] = {}
    poetry = at(project, "tool", "poetry", "group")
    for name, table in poetry.items() if isinstance(poetry, Mapping) else ():
        found[str(name)] = _poetry_lines(at(table, "dependencies"))
    found["dev"] = [*found.get("dev", ()), *_poetry_lines(at(project, "tool", "poetry", "dev-dependencies"))]
    pdm = at(project, "tool", "pdm", "dev-dependencies")
    found |= {str(name): strings(lines) for name, lines in pdm.items()} if isinstance(pdm, Mapping) else {}
    groups = at(project, "dependency-groups")
    found |= {str(name): expanded(groups, str(name)) for name in groups} if isinstance(groups, Mapping) else {}
    kept = {name: [line for line in lines if not {normal_name(one) for one in names_of([line])} & mine]
            for name, lines in found.items()}  # fmt: skip
    return {name: tuple(lines) for name, lines in kept.items() if lines}


def naming(words: Iterable[str], offers: Mapping[str, Sequence[str]]) -> list[str]:
    """Lines of extras or groups for projects that some words name; each project once."""
    names = {normal_name(one) for word in words for one in (word, distribution_of(word)) if one}
    found: dict[str, str] = {}
    for line in (line for lines in offers.values() for line in lines):
        name = next((normal_name(one) for one in names_of([line])), "")
        if name in names:
            found.setdefault(name, line)
    return list(found.values())


def bringing(module: str, extras: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """What a project itself installs for a module: the extra of its name, or the line of one that names it; else nothing."""
    names = {normal_name(module), normal_name(distribution_of(module))} - {""}
    for extra, lines in extras.items():
        if normal_name(extra) in names:
            return tuple(lines)
    listed = (line for lines in extras.values() for line in lines)
    return next(((line,) for line in listed if {normal_name(name) for name in names_of([line])} & names), ())


def names_of(requirements: Sequence[str]) -> list[str]:
    return [name.partition("[")[0] for name in unpinned(requirements)]


def unpinned(requirements: Sequence[str]) -> list[str]:
    names = [match[0] for one in requirements if (match := re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[\w, -]+\])?", one))]
    return unique([name for name in names if not name.endswith((".txt", ".in"))])
