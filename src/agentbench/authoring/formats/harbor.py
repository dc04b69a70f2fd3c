"""Export tasks as Harbor folders (task.toml, instruction.md, environment/, tests/, solution/) and import such folders.

Tasks that the other format cannot express are rejected; nothing is dropped silently.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path

from agentbench.authoring.commit.task_draft import dump_yaml
from agentbench.authoring.environment.requirements import at
from agentbench.authoring.formats.dockerfiles import make_standalone
from agentbench.authoring.task_lock import TaskLocation, locked_draft, publish
from agentbench.contract.load import TASK_NAME, LoadedTask, load_task
from agentbench.core.errors import ContractError, InputError
from agentbench.core.text import shell_quoted
from agentbench.execution.lab import Lab

REWARD = "/logs/verifier/reward.txt"
_FOLDER = ".harbor-tests"
_CONTRACT_FILE = "tests/agentbench.json"
"""Part of an exported folder: the keys of task.yaml that Harbor cannot express, so that import restores the task."""
_VERIFIER_FOLDERS = "USER root\nRUN mkdir -p /logs/verifier /tests && chmod 1777 /logs /logs/verifier /tests\n"
"""Harbor's scripts expect these folders. They are created in the image, because nothing runs as root in the sandbox."""


# --- export ------------------------------------------------------------------------------------------------------

_JUDGE = '''"""Compare a JUnit report with the required tests; exit with 0 if all of them passed."""

import json
import sys
import xml.etree.ElementTree as ElementTree

passed = set()
for case in ElementTree.parse(sys.argv[1]).iter("testcase"):
    if not any(case.find(bad) is not None for bad in ("failure", "error", "skipped")):
        passed.add((case.get("classname", ""), case.get("name", "")))


def key(test):
    """Return a test's class name and name in pytest's report: folders, file and classes joined by dots; function."""
    head, bracket, parameters = test.partition("[")
    file, *parts = head.split("::")
    return ".".join([*file.removesuffix(".py").split("/"), *parts[:-1]]), parts[-1] + bracket + parameters


missing = [test for test in json.load(open(sys.argv[2])) if key(test) not in passed]
print("\\n".join(f"not passed: {test}" for test in missing))
sys.exit(bool(missing))
'''


def export_task(task: LoadedTask, out: Path, lab: Lab) -> Path:
    """Write a task as a Harbor folder below `out`.

    Raises:
        InputError: Harbor cannot express the task, or the folder exists or cannot be written.
        SourceError: the base repository cannot be fetched.
    """
    checks = [check for check in task.checks if check.mandatory]
    unsupported = [check.id for check in checks if check.kind == "probe" or check.has_parsed_results]
    if unsupported:
        raise InputError(
            f"{task.id}: check `{unsupported[0]}` is a probe or reads a report; only commands and pytest are supported"
        )
    unlisted = [
        check.id for check in checks if check.parser == "pytest" and not check.fail_to_pass and not check.pass_to_pass
    ]
    if unlisted:
        raise InputError(
            f"{task.id}: check `{unlisted[0]}` names no tests", remedy=f"run `ab task lock {shell_quoted(task.folder)}`"
        )
    folder = out / task.id
    if folder.exists():
        raise InputError(f"{folder} already exists", remedy="remove it, or pass another --out")
    snapshot = lab.snapshots.materialize(task)
    try:
        shutil.copytree(
            snapshot.folder, folder / "environment/repo", symlinks=True, ignore=shutil.ignore_patterns(".git")
        )
        for name, text in _texts(task).items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            file.chmod(0o755 if name.endswith(".sh") else 0o644)
        for path, hidden in task.hidden_files().items():
            file = folder / "tests/hidden" / path.decode("utf-8", "surrogateescape")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(hidden.content)
            file.chmod(0o755 if hidden.executable else 0o644)
        if task.reference_file is not None:
            shutil.copyfile(task.reference_file, folder / "solution" / task.reference_file.name)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise InputError(f"{error.filename or folder}: cannot write: {error.strerror}") from None
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
        _CONTRACT_FILE: json.dumps(_contract(task), indent=1) + "\n",
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
    """Return task.yaml as import needs it to restore the task: with the paths of the copied files."""
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
    # The exec form keeps multi-line commands and here-documents intact.
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


# --- import ------------------------------------------------------------------------------------------------------


def import_folder(source: Path, suite_dir: Path) -> Path:
    """Create a task from a Harbor folder without running anything. The task needs the docker backend for its image.

    The base repository is what the Dockerfile copies below its last WORKDIR. The tests become hidden files, which
    grading copies to /tests.

    Raises:
        InputError: a file is missing, or a task cannot express something (compose files, files made by the image).
    """
    settings = _settings(source)
    _check_supported(source, settings)
    for name in ("instruction.md", "environment/Dockerfile", "tests/test.sh"):
        if not (source / name).is_file():
            raise InputError(f"{source}: no {name}; not a Harbor task, or one that cannot be imported")
    if list((source / "environment").glob("*compose*.y*ml")):
        raise InputError(f"{source}: needs several containers (compose); a task has one sandbox")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", source.resolve().name)
    remedy = f"remove it, pass another --suite-dir, or rename {source}"
    with locked_draft(TaskLocation(suite_dir, name, remedy, f"name of {source}")) as (target, draft):
        contract = _exported_contract(source)
        try:
            if contract is None:
                _write_foreign_task(source, draft, settings, target)
            else:
                _restore_task(source, draft, contract, target)
        except OSError as error:
            raise InputError(f"{error.filename or draft}: cannot copy: {error.strerror}") from None
        publish(draft, target)
    return target


def _write_foreign_task(source: Path, draft: Path, settings: Mapping[str, object], target: Path) -> None:
    """Write a task whose base repository is what the image copies, checked by the task's own script."""
    image = make_standalone(source / "environment/Dockerfile")
    (draft / "repo").mkdir(parents=True)
    (draft / "repo/.keep").touch()
    for path, file in image.workspace_files.items():
        (draft / "repo" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, draft / "repo" / path, follow_symlinks=False)
    shutil.copytree(source / "tests", draft / "hidden" / _FOLDER)
    (draft / "Dockerfile").write_text(image.text + _VERIFIER_FOLDERS, encoding="utf-8")
    shutil.copyfile(source / "instruction.md", draft / "statement.md")
    solved = (source / "solution/solve.sh").is_file()
    if solved:
        shutil.copyfile(source / "solution/solve.sh", draft / "solve.sh")
    document = _document(target, settings, image.workdir, solved=solved)
    (draft / TASK_NAME).write_text(dump_yaml(document), encoding="utf-8")
    load_task(draft)


def _exported_contract(source: Path) -> dict[str, object] | None:
    """Return the contract that `export_task` wrote, or None for other Harbor tasks."""
    file = source / _CONTRACT_FILE
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: cannot read: {error}", remedy="remove it to import the image") from None
    if not isinstance(document, dict):
        raise InputError(f"{file}: expected an object", remedy="remove it to import the image")
    return document


def _restore_task(source: Path, draft: Path, document: dict[str, object], target: Path) -> None:
    """Restore an exported task, with its own repository, environment and test ids."""
    document = {**document, "id": target.name, "suite": target.parent.name}
    reference = document.get("reference")
    shutil.copytree(source / "environment/repo", draft / "repo", symlinks=True)
    if (source / "tests/hidden").is_dir():
        shutil.copytree(source / "tests/hidden", draft / "hidden")
    shutil.copyfile(source / "instruction.md", draft / "statement.md")
    if isinstance(reference, str) and (source / "solution" / Path(reference).name).is_file():
        shutil.copyfile(source / "solution" / Path(reference).name, draft / Path(reference).name)
    (draft / TASK_NAME).write_text(dump_yaml(document), encoding="utf-8")
    try:
        load_task(draft)
    except ContractError as error:
        raise InputError(
            f"{source / _CONTRACT_FILE}: invalid task: {'; '.join(error.problems[:3]) or error.message}",
            remedy="remove it to import the image",
        ) from None


def _settings(source: Path) -> Mapping[str, object]:
    try:
        return tomllib.loads((source / "task.toml").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{source / 'task.toml'}: cannot read: {error}") from None


_UNSUPPORTED = {
    ("steps",): "several steps with their own verifiers",
    ("verifier", "env"): "environment variables for the verifier",
    ("environment", "gpus"): "GPUs",
    ("environment", "mcp_servers"): "MCP servers",
    ("environment", "healthcheck"): "health checks of services",
}


def _check_supported(source: Path, settings: Mapping[str, object]) -> None:
    for keys, feature in _UNSUPPORTED.items():
        if at(settings, *keys):
            raise InputError(f"{source / 'task.toml'}: {'.'.join(keys)}: tasks do not support {feature}")


def _document(target: Path, settings: Mapping[str, object], workdir: str, *, solved: bool) -> dict[str, object]:
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
        "id": target.name,
        "suite": target.parent.name,
        "statement_file": "statement.md",
        "repo": {"path": "repo/"},
        "environment": environment,
        "oracle": {"hidden": "hidden/", "checks": [check]},
        **({"reference": "solve.sh"} if solved else {}),
        "budget": {"wall_sec": int(_number(settings, "agent", "timeout_sec", 1800))},
    }


def _number(settings: Mapping[str, object], section: str, key: str, default: float) -> float:
    value = at(settings, section, key)
    return value if isinstance(value, int | float) and value >= 1 else default


def _megabytes(settings: Mapping[str, object], key: str, default: int) -> int:
    """Read `memory_mb = 2048`, or the older form `memory = "2G"`."""
    old = at(settings, "environment", key)
    match = re.fullmatch(r"(?i)\s*(\d+(?:\.\d+)?)\s*([gm])i?b?\s*", old) if isinstance(old, str) else None
    if match:
        default = int(float(match[1]) * (1024 if match[2].lower() == "g" else 1))
    return int(_number(settings, "environment", f"{key}_mb", default))
