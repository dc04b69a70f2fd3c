"""Harbor: a task as its folder (task.toml, instruction.md, environment/, tests/, solution/), and such a folder as a task.

What cannot be said in the other's terms is refused, never dropped.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path

from agentbench.authoring.commit.task_draft import dump
from agentbench.authoring.formats.dockerfiles import stand_alone
from agentbench.authoring.task_lock import Site, publish, workshop
from agentbench.contract.load import TASK_NAME, LoadedTask, load_task
from agentbench.core.errors import ContractError, InputError
from agentbench.run.lab import Lab

REWARD = "/logs/verifier/reward.txt"
_FOLDER = ".harbor-tests"
_OWN = "tests/agentbench.json"
"""In what we exported: the parts of the contract that Harbor has no words for, so that it comes back whole."""
_VERIFIER_FOLDERS = "USER root\nRUN mkdir -p /logs/verifier /tests && chmod 1777 /logs /logs/verifier /tests\n"
"""Harbor's scripts expect these two, as root; a sandbox has no root that could make them later."""


# --- out ---------------------------------------------------------------------------------------------------------

_JUDGE = '''"""Compares a JUnit report with the tests that must pass; exit 0 when all do."""

import json
import sys
import xml.etree.ElementTree as ElementTree

passed = set()
for case in ElementTree.parse(sys.argv[1]).iter("testcase"):
    if not any(case.find(bad) is not None for bad in ("failure", "error", "skipped")):
        passed.add((case.get("classname", ""), case.get("name", "")))


def key(test):
    """As pytest names a test in its report: folders, file and classes joined by dots, then the function."""
    head, bracket, parameters = test.partition("[")
    file, *parts = head.split("::")
    return ".".join([*file.removesuffix(".py").split("/"), *parts[:-1]]), parts[-1] + bracket + parameters


missing = [test for test in json.load(open(sys.argv[2])) if key(test) not in passed]
print("\\n".join(f"not passed: {test}" for test in missing))
sys.exit(bool(missing))
'''


def export_task(task: LoadedTask, out: Path, lab: Lab) -> Path:
    """Write a task as a folder of Harbor below `out`.

    Raises:
        InputError: a task that cannot be said so, or a place that is taken or cannot be written.
        SourceError: R cannot be had.
    """
    checks = [check for check in task.checks if check.mandatory]
    odd = [check.id for check in checks if check.kind == "probe" or check.parser == "junit"]
    if odd:
        raise InputError(
            f"{task.id}: check {odd[0]} is a probe or reads a report; only commands and pytest can be exported"
        )
    unlisted = [
        check.id for check in checks if check.parser == "pytest" and not check.fail_to_pass and not check.pass_to_pass
    ]
    if unlisted:
        raise InputError(f"{task.id}: check {unlisted[0]} names no tests", remedy=f"ab task lock {task.folder}")
    folder = out / task.id
    if folder.exists():
        raise InputError(f"{folder} exists already", remedy="remove it, or give another --out")
    snapshot = lab.snapshots.materialise(task)
    try:
        shutil.copytree(
            snapshot.folder, folder / "environment/repo", symlinks=True, ignore=shutil.ignore_patterns(".git")
        )
        for name, text in _texts(task).items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            file.chmod(0o755 if name.endswith(".sh") else 0o644)
        for path, one in task.hidden_files().items():
            file = folder / "tests/hidden" / path.decode("utf-8", "surrogateescape")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(one.content)
            file.chmod(0o755 if one.executable else 0o644)
        if task.reference_file is not None:
            shutil.copyfile(task.reference_file, folder / "solution" / task.reference_file.name)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise InputError(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
    return folder


def _texts(task: LoadedTask) -> dict[str, str]:
    environment = task.task.environment
    lines = [
        'version = "1.0"',
        "[metadata]",
        f"title = {json.dumps(task.task.title)}",
        f"agentbench_suite = {json.dumps(task.task.suite)}",
        "[verifier]",
        f"timeout_sec = {float(sum(check.timeout_sec for check in task.checks) + 60)}",
        "[agent]",
        f"timeout_sec = {float(task.wall_sec)}",
        "[environment]",
        f"build_timeout_sec = {float(task.task.setup.timeout_sec)}",
        f"cpus = {max(1, round(environment.cpu_limit))}",
        f"memory_mb = {environment.mem_limit_mb}",
        f"storage_mb = {environment.disk_limit_mb}",
    ]
    texts = {
        "task.toml": "\n".join(lines) + "\n",
        "instruction.md": task.statement,
        "environment/Dockerfile": _dockerfile(task),
        "tests/test.sh": _test_script(task),
        "tests/judge.py": _JUDGE,
        _OWN: json.dumps(_contract(task), indent=1) + "\n",
    }
    for check in task.checks:
        if check.parser == "pytest":
            texts[f"tests/{check.id}.json"] = json.dumps([*check.fail_to_pass, *check.pass_to_pass], indent=1) + "\n"
    if task.reference_file is not None:
        name = task.reference_file.name
        how = {".patch": "git apply", ".diff": "git apply", ".py": "python3"}.get(task.reference_file.suffix, "sh")
        workdir = shlex.quote(environment.workdir)
        texts["solution/solve.sh"] = (
            f'#!/bin/bash\nset -eu\ncd {workdir}\n{how} "$(dirname "$(readlink -f "$0")")"/{shlex.quote(name)}\n'
        )
    return texts


def _contract(task: LoadedTask) -> dict[str, object]:
    """What import needs to make the same task again: its file, with the places of what was copied."""
    document = task.task.model_dump(mode="json", exclude_unset=True)
    for key in ("statement", "statement_file", "repo", "reference"):
        document.pop(key, None)
    document["statement_file"] = "statement.md"
    document["repo"] = {"path": "repo/"}
    if task.reference_file is not None:
        document["reference"] = task.reference_file.name
    oracle = document.get("oracle")
    if isinstance(oracle, dict):
        oracle.pop("hidden", None)
        if task.hidden_files():
            oracle["hidden"] = "hidden/"
    return document


def _dockerfile(task: LoadedTask) -> str:
    environment = task.task.environment
    image = environment.docker_image or f"python:{environment.python or '3.11'}-slim"
    lines = [f"FROM {image}"]
    if environment.docker_image is None:
        lines.append(
            "RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*"
        )
    lines += [f"ENV {name}={json.dumps(value)}" for name, value in environment.env.items()]
    lines += [f"WORKDIR {environment.workdir}", "COPY repo/ ./"]
    # A command of several lines, a here-document among them, survives as an argument of the exec form.
    lines += [f"RUN {json.dumps(['/bin/sh', '-c', command])}" for command in task.task.setup.commands]
    return "\n".join(lines) + "\n"


def _test_script(task: LoadedTask) -> str:
    workdir = shlex.quote(task.task.environment.workdir)
    lines = [
        "#!/bin/bash",
        f"mkdir -p {shlex.quote(str(Path(REWARD).parent))}",
        f"echo 0 > {REWARD}",
        f"cd {workdir} || exit 0",
        'here="$(dirname "$(readlink -f "$0")")"',
        'if [ -d "$here/hidden" ]; then cp -R "$here/hidden/." .; fi',
        "good=1",
    ]
    for check in task.checks:
        if not check.mandatory:
            continue
        if check.parser == "pytest":
            report = f"/tmp/{check.id}.xml"  # noqa: S108 - inside the container of the other harness
            lines += [
                f"{check.command} -o junit_family=xunit1 --junitxml={report}",
                f'python3 "$here/judge.py" {report} "$here/{check.id}.json" || good=0',
            ]
        else:
            lines.append(f"({check.command}) || good=0")
    return "\n".join([*lines, f"echo $good > {REWARD}"]) + "\n"


# --- in ----------------------------------------------------------------------------------------------------------


def import_folder(source: Path, suite_dir: Path) -> Path:
    """Make a task from a folder of Harbor; nothing of it runs. It needs the docker backend, as its environment is an image.

    R is what the Dockerfile copies below its last WORKDIR; the tests become hidden files and are put to /tests when grading.

    Raises:
        InputError: a part is missing, or something that a task cannot say (compose files, files made by the image).
    """
    settings = _settings(source)
    _refuse_unsayable(source, settings)
    for name in ("instruction.md", "environment/Dockerfile", "tests/test.sh"):
        if not (source / name).is_file():
            raise InputError(f"{source}: expected {name}: not a task of Harbor, or one that a contract cannot say")
    if list((source / "environment").glob("*compose*.y*ml")):
        raise InputError(f"{source}: it needs several containers (compose); a contract has one sandbox")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", source.resolve().name)
    remedy = f"remove it, give another --suite-dir, or rename {source}"
    with workshop(Site(suite_dir, name, remedy, f"the name of {source}")) as (place, draft):
        own = _ours(source)
        try:
            if own is None:
                _copied_image(source, draft, settings, place)
            else:
                _come_back(source, draft, own, place)
        except OSError as error:
            raise InputError(f"{error.filename or draft}: cannot be copied: {error.strerror}") from None
        publish(draft, place)
    return place


def _copied_image(source: Path, draft: Path, settings: Mapping[str, object], place: Path) -> None:
    """A task of others: R is what its image copies, its script the judge."""
    image = stand_alone(source / "environment/Dockerfile")
    (draft / "repo").mkdir(parents=True)
    (draft / "repo/.keep").touch()
    for path, file in image.placed.items():
        (draft / "repo" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, draft / "repo" / path, follow_symlinks=False)
    shutil.copytree(source / "tests", draft / "hidden" / _FOLDER)
    (draft / "Dockerfile").write_text(image.text + _VERIFIER_FOLDERS, encoding="utf-8")
    shutil.copyfile(source / "instruction.md", draft / "statement.md")
    solved = (source / "solution/solve.sh").is_file()
    if solved:
        shutil.copyfile(source / "solution/solve.sh", draft / "solve.sh")
    (draft / TASK_NAME).write_text(dump(_document(place, settings, image.workdir, solved=solved)), encoding="utf-8")
    load_task(draft)


def _ours(source: Path) -> dict[str, object] | None:
    """The contract of a task that was ours before; None for any other."""
    try:
        found = json.loads((source / _OWN).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{source / _OWN} cannot be read: {error}", remedy="remove it to import the image") from None
    if not isinstance(found, dict):
        raise InputError(f"{source / _OWN}: expected an object", remedy="remove it to import the image")
    return found


def _come_back(source: Path, draft: Path, document: dict[str, object], place: Path) -> None:
    """A task of ours that went out: R from the image's folder, its tests with their ids, its own environment."""
    document = {**document, "id": place.name, "suite": place.parent.name}
    reference = document.get("reference")
    shutil.copytree(source / "environment/repo", draft / "repo", symlinks=True)
    if (source / "tests/hidden").is_dir():
        shutil.copytree(source / "tests/hidden", draft / "hidden")
    shutil.copyfile(source / "instruction.md", draft / "statement.md")
    if isinstance(reference, str) and (source / "solution" / Path(reference).name).is_file():
        shutil.copyfile(source / "solution" / Path(reference).name, draft / Path(reference).name)
    (draft / TASK_NAME).write_text(dump(document), encoding="utf-8")
    try:
        load_task(draft)
    except ContractError as error:
        raise InputError(
            f"{source / _OWN} is no contract: {'; '.join(error.problems[:3]) or error.message}",
            remedy="remove it to import the image",
        ) from None


def _settings(source: Path) -> Mapping[str, object]:
    try:
        return tomllib.loads((source / "task.toml").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{source / 'task.toml'} cannot be read: {error}") from None


_UNSAYABLE = {
    ("steps",): "several steps, each with a verifier",
    ("verifier", "env"): "variables for its verifier, which here has nothing but the workspace",
    ("environment", "gpus"): "a GPU",
    ("environment", "mcp_servers"): "servers of tools",
    ("environment", "healthcheck"): "a service that must come up first",
}


def _refuse_unsayable(source: Path, settings: Mapping[str, object]) -> None:
    for keys, what in _UNSAYABLE.items():
        value: object = settings
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        if value:
            raise InputError(f"{source / 'task.toml'}: {'.'.join(keys)}: it wants {what}; a contract cannot say that")


def _document(place: Path, settings: Mapping[str, object], workdir: str, *, solved: bool) -> dict[str, object]:
    verify = f"mkdir -p /logs/verifier /tests && cp -R {_FOLDER}/. /tests/ && bash /tests/test.sh"
    environment = {
        "dockerfile": "Dockerfile",
        "workdir": workdir,
        "network_policy": "setup_only",
        "cpu_limit": _number(settings, "environment", "cpus", 2),
        "mem_limit_mb": _megabytes(settings, "memory", 4096),
        "disk_limit_mb": _megabytes(settings, "storage", 10240),
    }
    check = {
        "id": "verifier",
        "layer": "script",
        "command": f'{verify}; case "$(cat {REWARD})" in 1|1.0) true;; *) false;; esac',
        "parser": "exit_code",
        "timeout_sec": int(_number(settings, "verifier", "timeout_sec", 600)),
    }
    return {
        "schema_version": 1,
        "id": place.name,
        "suite": place.parent.name,
        "statement_file": "statement.md",
        "repo": {"path": "repo/"},
        "environment": environment,
        "oracle": {"hidden": "hidden/", "checks": [check]},
        **({"reference": "solve.sh"} if solved else {}),
        "budget": {"wall_sec": int(_number(settings, "agent", "timeout_sec", 1800))},
    }


def _number(settings: Mapping[str, object], section: str, key: str, default: float) -> float:
    table = settings.get(section)
    value = table.get(key) if isinstance(table, Mapping) else None
    return value if isinstance(value, int | float) and value >= 1 else default


def _megabytes(settings: Mapping[str, object], key: str, default: int) -> int:
    """`memory_mb = 2048`, or as older tasks have it: `memory = "2G"`."""
    table = settings.get("environment")
    old = table.get(key) if isinstance(table, Mapping) else None
    match = re.fullmatch(r"(?i)\s*(\d+(?:\.\d+)?)\s*([gm])i?b?\s*", old) if isinstance(old, str) else None
    if match:
        default = int(float(match[1]) * (1024 if match[2].lower() == "g" else 1))
    return int(_number(settings, "environment", f"{key}_mb", default))
