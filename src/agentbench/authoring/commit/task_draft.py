"""Write a task folder: `task.yaml` and the files beside it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

import yaml

from agentbench.contract.json_schema import TASK_MODELINE
from agentbench.contract.load import TASK_NAME, LoadedTask, load_task
from agentbench.contract.schema import SLUG
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError

CHECK = "tests"
NOTES_NAME = "notes.md"


@dataclass(frozen=True, slots=True)
class TaskDraft:
    """Contents of a task folder before it is written."""

    id: str
    suite: str
    title: str
    statement: str
    url: str
    commit: str
    python: str | None
    env: Mapping[str, str]
    setup: tuple[str, ...]
    command: str
    hidden: Mapping[str, tuple[bytes, bool]]
    reference: bytes
    timeout_sec: int = 300
    mem_limit_mb: int = 2048
    network: bool = True
    submodules: bool = True
    strata: Mapping[str, str] = field(default_factory=dict)
    envelope: Mapping[str, int] = field(default_factory=dict)
    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    notes: str = ""
    origin: str | None = None
    """URL that the local repository `url` was cloned from."""
    flake_tolerance: float = 0.0
    report: str = ""
    """JUnit report that the command writes; empty if the command is pytest."""
    protected: tuple[str, ...] = ()
    hint: str = "python -m pytest"
    capture: tuple[str, ...] = ("python -V", "python -m pip freeze --exclude-editable")

    def document(self) -> dict[str, object]:
        check: dict[str, object] = {
            "id": CHECK,
            "layer": "unit",
            "command": self.command,
            "parser": "junit" if self.report else "pytest",
            **({"report": self.report} if self.report else {}),
            "timeout_sec": self.timeout_sec,
        }
        if self.fail_to_pass:
            check |= {"fail_to_pass": list(self.fail_to_pass), "pass_to_pass": list(self.pass_to_pass)}
        if self.flake_tolerance:
            check["flake_tolerance"] = self.flake_tolerance
        environment: dict[str, object] = {
            "network_policy": "setup_only" if self.network else "none",
            "mem_limit_mb": self.mem_limit_mb,
        }
        if self.python:
            environment["python"] = self.python
        if self.env:
            environment["env"] = dict(self.env)
        return {
            "schema_version": 1,
            "id": self.id,
            "suite": self.suite,
            "title": self.title,
            "statement_file": "statement.md",
            "hints": {"test_command": self.hint},
            "strata": dict(self.strata),
            "repo": {
                "url": self.url,
                **({"origin": self.origin} if self.origin else {}),
                "commit": self.commit,
                **({} if self.submodules else {"submodules": False}),
            },
            "environment": environment,
            "setup": {"commands": list(self.setup), "capture": list(self.capture)},
            "oracle": {
                "hidden": "hidden/",
                **({"protected": list(self.protected)} if self.protected else {}),
                "checks": [check],
            },
            "reference": "reference.patch",
            **({"rubric": {"envelope": dict(self.envelope)}} if self.envelope else {}),
        }


class _Dumper(yaml.SafeDumper):
    pass


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    # Commit ids such as 0b… and 12e7… are numbers to some YAML readers, so text that starts with a digit is quoted.
    style = "|" if "\n" in value else "'" if value[:1].isdigit() else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def dump_yaml(document: object) -> str:
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=118)


def write_task(draft: TaskDraft, folder: Path) -> LoadedTask:
    """Write a task folder, replacing what was there, and load it.

    Raises:
        InputError: the folder cannot be written.
        ContractError: the draft is not a valid task.
    """
    try:
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        (folder / TASK_NAME).write_text(TASK_MODELINE + dump_yaml(draft.document()), encoding="utf-8")
        (folder / "statement.md").write_text(draft.statement, encoding="utf-8")
        (folder / "reference.patch").write_bytes(draft.reference)
        if draft.notes:
            (folder / NOTES_NAME).write_text(draft.notes, encoding="utf-8")
        for name, (content, executable) in draft.hidden.items():
            file = folder / "hidden" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            file.chmod(0o755 if executable else 0o644)
    except OSError as error:
        raise InputError(f"{error.filename or folder}: cannot write: {error.strerror}") from None
    return load_task(folder)


def check_name(name: str, what: str) -> str:
    """Return a valid name of a task or suite.

    Raises:
        InputError: the name is not valid; `what` says in the message where it comes from.
    """
    if re.fullmatch(SLUG, name) is None:
        msg = f"{what}: expected letters, digits, '.', '_' and '-', starting with a letter or digit; got {name!r}"
        raise InputError(msg)
    return name
