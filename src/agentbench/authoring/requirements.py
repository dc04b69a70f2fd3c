"""What a repository says its tests need: extras, groups, requirement files, tox, nox, setup.py. Pure."""

from __future__ import annotations

import ast
import configparser
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from agentbench.core.syntax import parse as parse_python
from agentbench.workspace.packageindex import normal_name

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
                return _expand(groups, name, ())
    for keys in (("group", "test"), ("group", "tests"), ("group", "dev"), ()):
        where = ("tool", "poetry", *keys, "dependencies" if keys else "dev-dependencies")
        listed = at(project, *where)
        if isinstance(listed, Mapping):
            return [f"{name}{_poetry_version(value)}" for name, value in listed.items() if name != "python"]
    others = [strings(at(project, "tool", "pdm", "dev-dependencies", name)) for name in _TEST_NAMES]
    others.append(strings(at(project, "tool", "uv", "dev-dependencies")))
    for name in ("hatch-test", "test", "tests", "default"):
        where = ("tool", "hatch", "envs", name)
        others.append(
            [*strings(at(project, *where, "dependencies")), *strings(at(project, *where, "extra-dependencies"))]
        )
    return next((found for found in others if found), [])


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


def tox_requirements(
    text: str | None, config: configparser.RawConfigParser, project: Mapping[str, object], python: str = ""
) -> list[str]:
    """What its environments install; of lines that are for some of them (`py{3,311}: …`) those for `python` as such."""
    legacy = at(project, "tool", "tox", "legacy_tox_ini")
    tox = ini_of(text if text is not None else legacy if isinstance(legacy, str) else None)
    section = "testenv" if tox.has_section("testenv") else ""
    lines = tox.get(section, "deps", fallback="").splitlines() if section else []
    if config.has_option("options", "tests_require"):
        lines += config.get("options", "tests_require").splitlines()
    words: list[str] = []
    for line in (_for_python(line.strip().replace("{toxinidir}/", ""), python) for line in lines):
        if not line or line.startswith("#") or "{" in line:
            continue
        if line.startswith("-r"):
            words += ["-r", line[2:].strip()]
        elif not line.startswith("-"):
            words.append(line)
    return words


def _for_python(line: str, python: str) -> str:
    """What a line of tox says to an environment that is called after its interpreter and nothing else; else nothing."""
    match = re.match(r"([\w!,.{}-]+):\s+(?=\S)", line)
    if match is None:
        return line
    short = python.replace(".", "")
    names = {name for factor in re.split(r",(?![^{]*\})", match[1]) for name in _alternatives(factor)}
    return line[match.end() :] if names & {"py", "py3", f"py{short}" if short else "py"} else ""


def _alternatives(factor: str) -> list[str]:
    """`py{3,311}` → `py3`, `py311`."""
    match = re.fullmatch(r"([^{}]*)\{([^{}]*)\}([^{}]*)", factor)
    return [f"{match[1]}{one.strip()}{match[3]}" for one in match[2].split(",")] if match else [factor]


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
    tree = _parsed(script)
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
            return _constants(value.elts) if isinstance(value, ast.List | ast.Tuple) else []
    return []


def nox_requirements(text: str | None) -> list[str]:
    """What a session of nox that is called after tests installs."""
    tree = _parsed(text or "")
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef) and "test" in node.name.lower():
            words = [word for call in _installs(node) for word in call]
            if words:
                return unique(words)
    return []


def _installs(function: ast.FunctionDef) -> Iterator[list[str]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "install":
            words = _constants(node.args)
            # Files of requirements and the project itself are found where they are.
            yield [word for word in words if re.match(r"[A-Za-z0-9]", word) and not word.endswith((".txt", ".in"))]


def _constants(nodes: Sequence[ast.expr]) -> list[str]:
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def _parsed(text: str) -> ast.AST | None:
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
